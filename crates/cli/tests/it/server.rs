//! `server`: a ZooKeeper server in one command, for the locks of this machine.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use lockkeeper_zookeeper::{Client, Config};
use rustix::process::Signal;

use crate::support::{Ended, Place, Running, eventually, finish};

/// A running server, ended by its test.
pub(crate) struct Server {
    itself: Running,
    url: String,
}

impl Server {
    pub(crate) fn start(place: &Place, arguments: &[&str]) -> Self {
        Self::start_as_told(place, &[&["--listen", "127.0.0.1:0"], arguments].concat())
    }

    /// Starts it without an address to listen on.
    pub(crate) fn start_as_told(place: &Place, arguments: &[&str]) -> Self {
        Self::of(place.command(&[&["server"], arguments].concat()))
    }

    /// Starts the command of a server, also if another process has its port for a moment, as for a connection.
    pub(crate) fn of(mut command: Command) -> Self {
        eventually("it listens", || {
            let mut server = Self { itself: Running::start(&mut command), url: String::new() };
            match server.find_line("lockkeeper: serving ") {
                Ok(serving) => {
                    server.url = serving["lockkeeper: serving ".len()..].split(',').next().unwrap().to_owned();
                    Some(server)
                }
                Err(said) => {
                    assert!(said.contains("in use"), "it does not serve: {said}");
                    None
                }
            }
        })
    }

    /// The next line that begins so.
    pub(crate) fn line(&self, prefix: &str) -> String {
        self.find_line(prefix).unwrap_or_else(|others| panic!("{prefix:?} was not said, but {others}"))
    }

    /// The next line that begins so, or else those that were said.
    fn find_line(&self, prefix: &str) -> Result<String, String> {
        let mut others = String::new();
        loop {
            let line = self.itself.said();
            if line.is_empty() {
                return Err(others);
            }
            if line.starts_with(prefix) {
                return Ok(line.trim_end_matches('\n').to_owned());
            }
            others += &line;
        }
    }

    /// Waits until it ends, and returns how it did, and the lines that it said and no test has taken.
    pub(crate) fn last_lines(self) -> (Option<i32>, Vec<String>) {
        let ended = self.itself.end();
        (ended.code, ended.stderr.lines().map(str::to_owned).collect())
    }

    pub(crate) fn pid(&self) -> i32 {
        self.itself.pid()
    }

    /// Kills it, as a failing machine does.
    pub(crate) fn kill(mut self) {
        self.itself.kill();
    }

    /// `HOST:PORT` of the one address that it listens on.
    pub(crate) fn address(&self) -> &str {
        self.url.rsplit('/').next().unwrap()
    }

    /// Where it says that it listens: one URL, or several with `and` between them.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A client of it, by these settings of a URL.
    pub(crate) async fn client(&self, settings: &str) -> Client {
        let url = format!("{}{settings}", self.url).parse().unwrap();
        Client::connect(&Config::from_url(&url).unwrap()).await.unwrap()
    }

    /// Its answer to a four-letter word.
    pub(crate) fn word(&self, word: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.write_all(word.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Asks it to end, and returns how it did.
    pub(crate) fn stop(self) -> Option<i32> {
        self.stop_and_listen().0
    }

    /// Asks it to end, and returns how it did, and the lines that it said and no test has taken.
    pub(crate) fn stop_and_listen(self) -> (Option<i32>, Vec<String>) {
        self.itself.send(Signal::TERM);
        self.last_lines()
    }
}

#[test]
fn tokens_grow_over_a_restart_with_and_without_a_data_directory() {
    let place = Place::new();
    let data = place.file("data/x", "").parent().unwrap().join("store");
    let mut last = 0;
    for arguments in [vec!["--data-dir", data.to_str().unwrap()], vec![]] {
        for _ in 0..2 {
            let server = Server::start(&place, &arguments);
            let run = ["run", "--connect", &server.url, "job", "--", "sh", "-c", "echo $LOCKKEEPER_TOKEN"];
            for _ in 0..2 {
                let token: u64 = place.run(&run).stdout.trim().parse().unwrap();
                assert!(token > last, "{token} after {last}");
                last = token;
            }
            assert_eq!(server.stop(), Some(0));
        }
    }
}

#[test]
fn a_config_file_gives_what_the_options_do_not_and_does_not_name_a_service_by_it() {
    let place = Place::new();
    let store = place.file("data/x", "").parent().unwrap().join("store");
    let told = format!("[server]\nlisten = '127.0.0.1:0'\ndata_dir = '{}'\ntick = '500ms'", store.display());
    let config = place.configure(&told);
    let server = Server::start_as_told(&place, &[]);
    assert!(store.is_dir());
    let run = ["-v", "run", "--connect", &format!("{}?session_timeout=60s", server.url), "job", "--", "true"];
    let ended = place.run(&run);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let clipped = "warning: the server granted a session timeout of 10s, not 60s";
    assert_eq!(ended.stderr.matches(clipped).count(), 1, "{ended:?}");
    // 20 ticks of 500 ms leave less than this grace needs.
    let too_long = place.run(&[&run[..4], &["--grace", "6s"], &run[4..]].concat());
    assert_eq!(too_long.code, Some(125), "{too_long:?}");
    assert_eq!(server.stop(), Some(0));
    let elsewhere = store.with_file_name("elsewhere");
    let server = Server::start_as_told(&place, &["--data-dir", elsewhere.to_str().unwrap()]);
    assert!(elsewhere.is_dir());
    assert_eq!(server.stop(), Some(0));
    // Locks are files of this machine all the same.
    let ended = place.run(&["-v", "run", "job", "--", "true"]);
    assert!(ended.code == Some(0) && ended.stderr.contains(&place.service()), "{ended:?}");
    std::fs::write(&config, "[server]\nlisten = '127.0.0.1:0'\ntick = 100").unwrap();
    let ended = place.run(&["server"]);
    assert!(ended.code == Some(125) && ended.stderr.contains("write 100ms or 100s"), "{ended:?}");
}

/// What an operator sees of locks of every kind on a server, and does to them.
#[test]
fn every_kind_of_lock_and_every_order_works_on_our_server() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    // A hold outlives a moment in which the machine stands still.
    let url = format!("{}?session_timeout=40s&tick=2s", server.url);
    let command = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("LOCKKEEPER_URL", &url);
        command
    };
    let run = |arguments: &[&str]| finish(&mut command(arguments));
    let show = || run(&["show", "x", "--json"]).json();
    let hold = |options: &[&str]| {
        let script = ["x", "--", "sh", "-c", "echo held; exec sleep 600"];
        let holder = Running::start(&mut command(&[&["run"], options, &script].concat()));
        assert_eq!(holder.line(), "held\n");
        holder
    };
    for (options, kind, others) in [
        (&["-s"][..], "rwlock", &["-x"][..]),
        (&["-x"], "rwlock", &["-s"]),
        (&["--permits", "1"], "semaphore", &["--permits", "1"]),
        (&[], "mutex", &[]),
    ] {
        let holder = hold(options);
        assert_eq!(show()["kind"], kind);
        assert_eq!(run(&[&["run", "-n"], others, &["x", "--", "true"]].concat()).code, Some(124), "{options:?}");
        let asked = run(&["revoke", "x", "--reason", "deploying", "-w", "2m"]);
        assert_eq!(asked.code, Some(0), "{options:?}: {asked:?}");
        let Ended { code, stderr: said, .. } = holder.end();
        assert_eq!(code, Some(143), "{options:?}");
        assert!(said.contains("give the lock up (deploying); ending the command"), "{said}");

        let holder = hold(options);
        let token = show()["contenders"][0]["token"].as_str().unwrap().to_owned();
        assert_eq!(run(&["break", "x", "--token", "1"]).code, Some(125));
        assert_eq!(run(&["break", "x", "--token", &token]).code, Some(0), "{options:?}");
        let Ended { code, stderr: said, .. } = holder.end();
        assert_eq!(code, Some(123), "{options:?}: {said}");
        // On a busy machine the watchdog may be late, and the command is ended before it is known why.
        let why = [
            "an operator broke the lock",
            "its watchdog did not end the command in time",
            "the session could not be proven alive in time",
        ];
        let is_told = why.iter().any(|why| said.ends_with(&format!("({why}), and the command was ended\n")));
        assert!(is_told, "{said}");

        let frozen = run(&["freeze", "x", "--kind", kind, "--reason", "new disks"]);
        assert_eq!(frozen.code, Some(0), "{options:?}: {frozen:?}");
        assert_eq!(run(&[&["run", "-n"], options, &["x", "--", "true"]].concat()).code, Some(124), "{options:?}");
        let next = Running::start(&mut command(&[&["run", "-q"], options, &["x", "--", "echo", "ran"]].concat()));
        assert_eq!(run(&["thaw", "x"]).code, Some(0));
        assert_eq!(next.end().stdout, "ran\n");
    }
    assert_eq!(server.stop(), Some(0));
}
