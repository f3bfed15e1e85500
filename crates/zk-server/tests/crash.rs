//! A server that is killed under load, again and again: what was acknowledged is there, and no more than was asked for.
//!
//! It is killed two hundred times in `cargo xtask test --long`, a tenth of that otherwise. The server is this test's
//! own program, started again.

#[expect(dead_code, reason = "the test of differences uses more of it")]
#[path = "differential/client.rs"]
mod client;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use lockkeeper_faults::{figures, long};
use lockkeeper_zk_proto::message::{Acl, Create, CreateMode, OpCode, ZkRequest, ZkResponse};
use lockkeeper_zk_server::EmbeddedServer;

use crate::client::{Client, Session};

/// How often the server is killed in the long run.
const KILLS_LONG: u32 = 200;
/// After how many kills the test prints its progress.
const TOLD_EVERY: u32 = 20;
/// Tells the program that it is to be the server, and where its data is.
const DIRECTORY_VARIABLE: &str = "LOCKKEEPER_CRASH_DIRECTORY";
/// How many clients write at once.
const WRITERS: usize = 4;
/// How many writes each client has under way.
const PIPELINED: usize = 16;
/// How many nodes are there, of all clients together, before the server is killed; some more each time.
const WRITTEN_BEFORE_KILL: usize = 60;
const SESSION_TIMEOUT_MS: i32 = 4_000;

/// The server's part: serves until it is killed.
#[tokio::test]
async fn the_server_that_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE) else {
        return;
    };
    let server = EmbeddedServer::builder().data_dir(PathBuf::from(directory)).start().await.unwrap();
    println!("\nlistening {}", server.address().unwrap());
    std::io::stdout().flush().unwrap();
    server.stopped().await;
}

#[test]
fn no_acknowledged_write_is_lost_however_often_the_server_is_killed() {
    let kills = long::rounds(KILLS_LONG);
    let folder = tempfile::tempdir().unwrap();
    let (mut acknowledged, mut asked) = (BTreeSet::new(), BTreeSet::new());
    let mut zxid = 0;
    for turn in 0..kills {
        let (mut server, address) = start(folder.path());
        let found = check(address, &acknowledged, &asked, &mut zxid);
        // What survived without being acknowledged is there to stay.
        acknowledged = found;
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| std::thread::spawn(move || write_until_killed(address, turn, writer))).collect();
        // Killed at another point each time, with writes under way.
        let enough = acknowledged.len() + WRITTEN_BEFORE_KILL + turn as usize * 7 % 200;
        while count_of(address) < enough {}
        server.kill().unwrap();
        server.wait().unwrap();
        for writer in writers {
            let (asked_here, acknowledged_here) = writer.join().unwrap();
            asked.extend(asked_here);
            acknowledged.extend(acknowledged_here);
        }
        if (turn + 1) % TOLD_EVERY == 0 {
            println!("{} kills of {kills}, {} writes acknowledged or found", turn + 1, acknowledged.len());
        }
    }
    let (mut server, address) = start(folder.path());
    let found = check(address, &acknowledged, &asked, &mut zxid);
    server.kill().unwrap();
    server.wait().unwrap();
    let (asked, found) = (asked.len(), found.len());
    figures::tell(&format!("crash kills: {kills}; {asked} writes asked for, {found} acknowledged or found, none lost"));
}

fn start(directory: &Path) -> (Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_server_that_is_killed", "--nocapture"])
        .env(DIRECTORY_VARIABLE, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening ").map(|address| address.parse().unwrap()))
        .expect("the server says where it listens");
    (child, address)
}

/// Compares what is there with what must be and what may be; returns what is there.
fn check(
    address: SocketAddr,
    acknowledged: &BTreeSet<String>,
    asked: &BTreeSet<String>,
    zxid: &mut i64,
) -> BTreeSet<String> {
    let mut client = connect(address).expect("it serves");
    client.send(&[ZkRequest::GetChildren { path: "/".into(), watch: false }]);
    let (header, answer) = client.answer(OpCode::GetChildren).unwrap();
    let Ok(ZkResponse::GetChildren { children }) = answer else {
        panic!("{answer:?}");
    };
    let found: BTreeSet<_> = children.into_iter().filter(|name| name != "zookeeper").collect();
    let lost: Vec<_> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let invented: Vec<_> = found.difference(asked).collect();
    assert!(invented.is_empty(), "never asked for: {invented:?}");
    assert!(header.zxid > *zxid, "numbers never go back");
    *zxid = header.zxid;
    found
}

/// A client with a new session; none if the server is gone.
fn connect(address: SocketAddr) -> Option<Client> {
    Client::try_connect(address, &Session::none(), SESSION_TIMEOUT_MS).ok()
}

/// How many nodes there are at the top, asked by a separate client; none if the server is gone.
fn count_of(address: SocketAddr) -> usize {
    let answer = connect(address).and_then(|mut client| {
        client.send(&[ZkRequest::GetAllChildrenNumber { path: "/".into() }]);
        client.answer(OpCode::GetAllChildrenNumber)
    });
    match answer {
        Some((_, Ok(ZkResponse::GetAllChildrenNumber { total }))) => total as usize - 3,
        _ => usize::MAX,
    }
}

/// Writes as fast as possible until the server is gone; returns what was asked for and what was acknowledged.
fn write_until_killed(address: SocketAddr, turn: u32, writer: usize) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut asked, mut acknowledged) = (BTreeSet::new(), BTreeSet::new());
    let Some(mut client) = connect(address) else {
        return (asked, acknowledged);
    };
    for round in 0.. {
        let names: Vec<_> = (0..PIPELINED).map(|number| format!("t{turn}-w{writer}-{round}-{number}")).collect();
        let create = |name: &String| {
            let (path, data) = (format!("/{name}"), Some(Bytes::from(name.clone())));
            ZkRequest::Create(Create { path, data, acl: vec![Acl::open()], mode: CreateMode::Persistent })
        };
        asked.extend(names.iter().cloned());
        client.send(&names.iter().map(create).collect::<Vec<_>>());
        for name in names {
            let Some((_, answer)) = client.answer(OpCode::Create) else {
                return (asked, acknowledged);
            };
            assert!(answer.is_ok(), "{answer:?}");
            acknowledged.insert(name);
        }
    }
    (asked, acknowledged)
}
