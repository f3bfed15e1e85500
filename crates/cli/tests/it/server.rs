//! `server`: a ZooKeeper server in one command, for the locks of this machine.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use lockkeeper_zookeeper::{Client, Config};
use rustix::process::Signal;

use crate::support::{Place, Running, eventually};

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
    let told = format!("[server]\nlisten = '127.0.0.1:0'\ndata_dir = '{}'", data.display());
    let (data, config) = (data.to_str().unwrap(), place.file("server.toml", &told));
    let mut last = 0;
    for arguments in [
        &["--listen", "127.0.0.1:0", "--data-dir", data][..],
        &["--config", config.to_str().unwrap()],
        &["--listen", "127.0.0.1:0"],
        &["--listen", "127.0.0.1:0"],
    ] {
        let server = Server::start_as_told(&place, arguments);
        let run = ["run", "--connect", &server.url, "job", "--", "sh", "-c", "echo $LOCKKEEPER_TOKEN"];
        for _ in 0..2 {
            let token: u64 = place.run(&run).stdout.trim().parse().unwrap();
            assert!(token > last, "{token} after {last}");
            last = token;
        }
        assert_eq!(server.stop(), Some(0));
    }
}
