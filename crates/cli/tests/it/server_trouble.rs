//! A server in trouble, and what it tells of it: on stderr, by `ruok` and `mntr`, and when it stops.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use lockkeeper_zk_proto::message::{ConnectRequest, ReadOnlyFlag};
use lockkeeper_zookeeper::{Client, Config, NewNode};
use tempfile::TempDir;

use crate::server::Server;
use crate::support::{PATIENCE, Place, finish, has_program, skip};

const DOCUMENT: &str = include_str!("../../../../docs/server.md");
/// The size of the file system that is filled, in bytes: room for a snapshot, a log and some records.
const DISK_BYTES: usize = 4 << 20;
/// How many descriptors the server has that runs out of them.
const DESCRIPTORS: usize = 64;

/// A separate file system with little room; it ends with this value.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// `None` where no file system can be mounted.
    fn mount() -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let options = format!("size={DISK_BYTES}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_once_when_it_begins_and_once_when_it_ends() {
    let Some(disk) = SmallDisk::mount() else { return skip("no file system can be mounted") };
    let place = Place::new();
    let data = disk.0.path().join("data");
    let server = Server::start(&place, &["--data-dir", data.to_str().unwrap()]);
    assert_eq!(server.word("ruok"), "imok");
    assert!(server.word("mntr").contains("zk_writes_refused\t0\n"));
    let client = server.client("?session_timeout=60s").await;
    let ballast = disk.0.path().join("ballast");
    let mut filling = fs::File::create(&ballast).unwrap();
    while filling.write_all(&[1; 4096]).is_ok() {}
    drop(filling);
    let mut count = 0;
    let large = |number: usize| NewNode::persistent(format!("/n{number}")).with_data(vec![5; 100_000]);
    while client.create(large(count)).await.is_ok() {
        count += 1;
        assert!(count < 1_000, "the disk is full at some point");
    }

    let begun = server.line(&format!("lockkeeper: {}/log.", data.display()));
    for part in ["No space left on device (os error 28)", "writes are refused, and reads go on", "make room"] {
        assert!(begun.contains(part), "{begun}");
    }
    let health = server.word("ruok");
    assert!(health.contains("writes are refused") && !health.contains("imok"), "{health}");
    assert!(server.word("mntr").contains("zk_writes_refused\t1\n"));

    fs::remove_file(&ballast).unwrap();
    server.line("lockkeeper: records can be stored again: writes are accepted");
    assert_eq!(server.word("ruok"), "imok");
    assert!(server.word("mntr").contains("zk_writes_refused\t0\n"));
    client.close().await.unwrap();
    assert_eq!(
        server.stop_and_listen(),
        (Some(0), vec!["lockkeeper: stopping, by SIGTERM".to_owned()]),
        "each is said once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_that_fails_stops_the_server_with_one_line_that_names_the_file_and_the_error() {
    if !has_program("strace") {
        return;
    }
    let place = Place::new();
    let data = TempDir::new().unwrap();
    let of_the_server = place.command(&["server", "--listen", "127.0.0.1:0", "--data-dir"]);
    let mut command = Command::new("strace");
    command.args(["-f", "-q", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"]);
    command.arg(of_the_server.get_program()).args(of_the_server.get_args()).arg(data.path());
    let server = Server::of(command);
    // Its handshake is the first record.
    let url = server.url().parse().unwrap();
    let config = Config::from_url(&url).unwrap();
    let connecting = tokio::spawn(async move { drop(Client::connect(&config).await) });
    let (code, lines) = tokio::task::spawn_blocking(|| server.last_lines()).await.unwrap();
    connecting.abort();
    assert_eq!((code, lines.len()), (Some(125), 1), "{lines:?}");
    let begin = format!("lockkeeper: the server has stopped: {}/log.", data.path().display());
    assert!(lines[0].starts_with(&begin), "{lines:?}");
    assert_eq!(lines[0].matches("Input/output error (os error 5)").count(), 1, "{lines:?}");
    assert!(lines[0].contains("look to the disk"), "{lines:?}");
}

#[test]
fn a_server_takes_as_many_descriptors_as_it_is_granted_tells_when_none_is_left_and_accepts_again_later() {
    let place = Place::new();
    for (limit, count) in [("ulimit -Sn", DESCRIPTORS * 3), ("ulimit -n", DESCRIPTORS + 20)] {
        let script = format!("{limit} {DESCRIPTORS} && exec \"$0\" \"$@\"");
        let of_the_server = place.command(&["server", "--listen", "127.0.0.1:0", "--max-connections-per-ip", "0"]);
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(of_the_server.get_program()).args(of_the_server.get_args());
        let server = Server::of(command);
        let crowd: Vec<_> = (0..count).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        if limit == "ulimit -n" {
            let begun = server.line("lockkeeper: no connection can be accepted");
            assert!(begun.contains("(os error 24)") && begun.contains("ulimit -n"), "{begun}");
            drop(crowd);
            server.line("lockkeeper: connections are accepted again");
        }
        assert_eq!(server.word("ruok"), "imok");
        assert_eq!(server.stop_and_listen().1, ["lockkeeper: stopping, by SIGTERM"], "none is wanting");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verbosely_it_tells_the_sessions_that_begin_and_end_and_the_clients_that_it_refuses() {
    let place = Place::new();
    let options = ["-v", "server", "--listen", "127.0.0.1:0", "--tick", "500ms", "--session-timeout-min", "300ms"];
    let server = Server::of(place.command(&options));
    let client = server.client("?session_timeout=60s").await;
    let id = client.session_id();
    let opened = server.line(&format!("lockkeeper: opened session {id:#x} of 127.0.0.1:"));
    assert!(opened.contains("timeout 10000 ms"), "20 ticks: {opened}");
    client.close().await.unwrap();
    server.line(&format!("lockkeeper: closed session {id:#x} of 127.0.0.1:"));

    let request = |session_id| ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: 300,
        session_id,
        password: None,
        read_only: ReadOnlyFlag::No,
    };
    let send = |request: ConnectRequest| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(&request.to_frame(1 << 10).unwrap()).unwrap();
        stream
    };
    let _silent = send(request(0));
    let opened = server.line("lockkeeper: opened session");
    let id = opened.split(' ').nth(3).unwrap();
    server.line(&format!("lockkeeper: expired session {id}"));
    let mut refused = send(request(77));
    server.line("lockkeeper: refused 127.0.0.1:");
    refused.set_read_timeout(Some(PATIENCE)).unwrap();
    refused.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_documents_command_asks_a_running_server_for_its_health() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let section = DOCUMENT.split("## Watch\n").nth(1).unwrap();
    let command = section.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let (host, port) = server.address().split_once(':').unwrap();
    let ended = finish(Command::new("bash").args(["-euc", command]).env("HOST", host).env("PORT", port));
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "imok", ""));
    assert_eq!(server.stop(), Some(0));
}
