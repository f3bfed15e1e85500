//! A server's data on disk: backing it up and restoring it, by the commands of `docs/server.md`, and what it says of a
//! directory that it does not take.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::server::Server;
use crate::support::{Holder, Place, finish};

const DOCUMENT: &str = include_str!("../../../../docs/server.md");
/// How many locks are taken and given back before a backup.
const LOCKS: usize = 20;

fn start(place: &Place, listen: &str, data: &Path) -> Server {
    // A session lives through a backup, however long that takes.
    let options = ["--listen", listen, "--data-dir", data.to_str().unwrap(), "--session-timeout-max", "5m"];
    Server::start_as_told(place, &options)
}

fn take_locks(place: &Place, server: &Server, count: usize) {
    for number in 0..count {
        let ended = place.run(&["run", "--connect", server.url(), &format!("job-{number}"), "--", "true"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
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
    ended.assert_refused(125, &[]).to_owned()
}

#[test]
fn a_backup_gives_back_all_nodes_and_a_lock_that_is_held() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup.tar"));
    let server = start(&place, "127.0.0.1:0", &data);
    take_locks(&place, &server, LOCKS);
    let address = server.address().to_owned();
    let url = format!("zk://{address}?session_timeout=5m");
    let run = ["run", "--connect", &url, "held", "--", "sh", "-c", "echo held; read line"];
    let holder = Holder::start(place.command(&run).stderr(Stdio::null()));
    assert_eq!(server.stop(), Some(0));

    let variables = [("DATA", data.to_str().unwrap()), ("BACKUP", backup.to_str().unwrap())];
    run_block(1, &variables);
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_dir_all(&data).unwrap();
    run_block(2, &variables);
    let server = start(&place, &address, &data);
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
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn damage_is_refused_in_one_line_and_the_documents_commands_go_on_from_it() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = start(&place, "127.0.0.1:0", &data);
    take_locks(&place, &server, 3);
    server.kill();
    let log = file(&data, "log.");
    fs::File::options().write(true).open(&log).unwrap().set_len(700).unwrap();
    let log_name = log.file_name().unwrap().to_str().unwrap();
    let said = refused(&place, &data);
    assert!(said.contains("it is cut short: it has 700 bytes"), "{said}");
    assert!(said.contains(&format!("rename the file to {log_name}.incomplete")), "{said}");
    run_block(3, &[("DATA", data.to_str().unwrap()), ("LOG", log_name)]);
    let server = start(&place, "127.0.0.1:0", &data);
    let line = server.line("lockkeeper: recovered");
    assert!(line.contains(&format!("{log_name}.incomplete was read as far as it is whole")), "{line}");
    take_locks(&place, &server, 3);
    server.kill();

    let server = start(&place, "127.0.0.1:0", &data);
    let nodes = |line: &str| line.split(',').next().unwrap().to_owned();
    let before = nodes(&server.line("lockkeeper: recovered"));
    server.kill();
    let snapshot = file(&data, "snapshot.");
    fs::write(&snapshot, "spoilt").unwrap();
    assert!(refused(&place, &data).contains(".previous"));
    let name = snapshot.file_name().unwrap().to_str().unwrap();
    let aside = folder.path().join("aside");
    run_block(4, &[("DATA", data.to_str().unwrap()), ("SNAPSHOT", name), ("ASIDE", aside.to_str().unwrap())]);
    let server = start(&place, "127.0.0.1:0", &data);
    assert_eq!(nodes(&server.line("lockkeeper: recovered")), before);
    assert_eq!(server.stop(), Some(0));
}
