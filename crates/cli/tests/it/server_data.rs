//! What a server keeps on disk: backing it up and restoring it, by the commands of `docs/server.md`, and what it says
//! of a directory that it does not take.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use crate::support::{Holder, Place, finish, in_time};

const DOCUMENT: &str = include_str!("../../../../docs/server.md");
/// How many locks are taken and given back before a backup.
const LOCKS: usize = 20;

/// A running server, and the lines that it says.
struct Server {
    process: Child,
    address: String,
    lines: mpsc::Receiver<String>,
}

impl Server {
    fn start(place: &Place, listen: &str, data: &Path) -> Self {
        let arguments = ["server", "--listen", listen, "--data-dir", data.to_str().unwrap()];
        let mut process = place.command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(process.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        let mut server = Self { process, address: String::new(), lines };
        let serving = server.line("lockkeeper: serving zk://");
        server.address = serving.split(['/', ',']).nth(2).unwrap().to_owned();
        server
    }

    /// The next line that begins so.
    fn line(&self, prefix: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(std::time::Duration::from_secs(30)).expect(prefix);
            if line.starts_with(prefix) {
                return line;
            }
        }
    }

    fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(in_time("the server ends", move || self.process.wait().unwrap().code()), Some(0));
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn take_locks(&self, place: &Place, count: usize) {
        for number in 0..count {
            let url = format!("zk://{}", self.address);
            let ended = place.run(&["run", "--connect", &url, &format!("job-{number}"), "--", "true"]);
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
    }
}

/// Runs a block of commands of the document, but for the server's start, which is the test's.
fn run_block(number: usize, variables: &[(&str, &str)]) {
    let section = DOCUMENT.split("## Back up and restore").nth(1).unwrap();
    let block = section.split("```sh\n").nth(number).unwrap().split("```").next().unwrap();
    let lines: Vec<_> = block.lines().filter(|line| !line.starts_with("lockkeeper server")).collect();
    let mut command = Command::new("sh");
    command.args(["-euc", &lines.join("\n")]).envs(variables.iter().copied());
    let ended = finish(&mut command);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{block}");
}

fn file(data: &Path, prefix: &str) -> PathBuf {
    let paths = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(prefix) && name.matches('.').count() == 1
    };
    paths.into_iter().find(is_it).unwrap()
}

fn refused(place: &Place, data: &Path) -> String {
    let ended = place.run(&["server", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(125), 1), "{ended:?}");
    ended.stderr
}

#[test]
fn a_backup_gives_back_all_nodes_and_a_lock_that_is_held() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup.tar"));
    let server = Server::start(&place, "127.0.0.1:0", &data);
    server.take_locks(&place, LOCKS);
    let address = server.address.clone();
    let url = format!("zk://{address}?session_timeout=30s");
    let run = ["run", "--connect", &url, "held", "--", "sh", "-c", "echo held; read line"];
    let holder = Holder::start(place.command(&run).stderr(Stdio::null()));
    server.stop();

    let variables = [("DATA", data.to_str().unwrap()), ("BACKUP", backup.to_str().unwrap())];
    run_block(1, &variables);
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_dir_all(&data).unwrap();
    run_block(2, &variables);
    let server = Server::start(&place, &address, &data);
    // Four of the service, the base, a node for each lock, and the holder.
    let expected =
        format!("lockkeeper: recovered nodes: {}, sessions: 1, by the snapshot of 0x", 4 + 1 + LOCKS + 1 + 1);
    let line = server.line("lockkeeper: recovered");
    assert!(line.starts_with(&expected) && line.ends_with("transactions after it: 0"), "{line}");
    let shown = DOCUMENT.lines().find(|line| line.starts_with("lockkeeper: recovered")).unwrap();
    assert!(shown.starts_with(&expected), "the document shows {shown}");
    let busy = place.run(&["run", "-n", "--connect", &url, "held", "--", "true"]);
    assert_eq!(busy.code, Some(124), "{busy:?}");
    drop(holder);
    server.stop();
}

#[test]
fn a_server_that_was_killed_says_how_many_transactions_it_recovered() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&place, "127.0.0.1:0", folder.path());
    server.take_locks(&place, 1);
    server.kill();
    let server = Server::start(&place, "127.0.0.1:0", folder.path());
    let line = server.line("lockkeeper: recovered");
    let count: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    // The base and the lock, the session's beginning, the contender, and the ends of both.
    assert!(count >= 5, "{line}");
    server.stop();
}

#[test]
fn damage_is_refused_in_one_line_and_the_documents_commands_go_on_from_it() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&place, "127.0.0.1:0", &data);
    server.take_locks(&place, 3);
    server.kill();
    let log = file(&data, "log.");
    fs::File::options().write(true).open(&log).unwrap().set_len(700).unwrap();
    let log_name = log.file_name().unwrap().to_str().unwrap();
    let said = refused(&place, &data);
    assert!(said.contains("it is cut short: it has 700 bytes"), "{said}");
    assert!(said.contains(&format!("rename the file to {log_name}.incomplete")), "{said}");
    run_block(3, &[("DATA", data.to_str().unwrap()), ("LOG", log_name)]);
    let server = Server::start(&place, "127.0.0.1:0", &data);
    let line = server.line("lockkeeper: recovered");
    assert!(line.contains(&format!("{log_name}.incomplete was read as far as it is whole")), "{line}");
    server.take_locks(&place, 3);
    server.kill();

    let server = Server::start(&place, "127.0.0.1:0", &data);
    let nodes = |line: &str| line.split(',').next().unwrap().to_owned();
    let before = nodes(&server.line("lockkeeper: recovered"));
    server.kill();
    let snapshot = file(&data, "snapshot.");
    fs::write(&snapshot, "spoilt").unwrap();
    assert!(refused(&place, &data).contains(".previous"));
    let name = snapshot.file_name().unwrap().to_str().unwrap();
    let aside = folder.path().join("aside");
    run_block(4, &[("DATA", data.to_str().unwrap()), ("SNAPSHOT", name), ("ASIDE", aside.to_str().unwrap())]);
    let server = Server::start(&place, "127.0.0.1:0", &data);
    assert_eq!(nodes(&server.line("lockkeeper: recovered")), before);
    server.stop();
}

#[test]
fn the_data_of_apache_zookeeper_is_refused_in_one_line_with_the_cure() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("version-2")).unwrap();
    for data in [folder.path().to_owned(), folder.path().join("version-2")] {
        fs::write(folder.path().join("version-2").join("snapshot.0"), "").unwrap();
        let said = refused(&place, &data);
        assert!(said.contains("Apache ZooKeeper") && said.contains("name an empty directory"), "{said}");
    }
}
