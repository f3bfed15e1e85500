//! The data on disk outlive the server.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lockkeeper_faults::skip::skip;
use lockkeeper_faults::wait::PATIENCE;
use lockkeeper_zk_proto::message::{Acl, Create, CreateMode, ErrorCode, MultiOperation, ZkRequest, ZkResponse};
use lockkeeper_zk_server::{EmbeddedServer, ServerError, StorageError};
use tokio::net::TcpStream;

use crate::client::{Client, create, create_as, exists};

/// The size of the file system that is filled: room for a snapshot, a log and some records.
const DISK_BYTES: usize = 4 << 20;
/// The longest tick in which systems count the times of files.
const SYSTEM_TICK_MAX: Duration = Duration::from_millis(20);

async fn server(folder: &Path) -> EmbeddedServer {
    EmbeddedServer::builder().data_dir(folder).start().await.unwrap()
}

#[tokio::test]
async fn nodes_and_sessions_outlive_an_orderly_end_and_a_sudden_one() {
    let folder = tempfile::tempdir().unwrap();
    let first = server(folder.path()).await;
    let mut client = Client::tcp(&first).await;
    client.ask(create("/kept")).await.unwrap().unwrap();
    client.ask(create_as("/mine", CreateMode::Ephemeral)).await.unwrap().unwrap();
    let mut zxid = first.zxid().await;
    let mut running = Some(first);
    for turn in 0..4 {
        let ending = running.take().unwrap();
        if turn % 2 == 0 {
            ending.shutdown().await;
        } else {
            drop(ending);
        }
        let next = reopened(folder.path()).await;
        assert!(next.zxid().await > zxid);
        let stream = TcpStream::connect(next.address().unwrap()).await.unwrap();
        client = client.resume(stream).await.unwrap();
        assert!(client.ask(exists("/kept", false)).await.unwrap().is_ok());
        assert!(client.ask(exists("/mine", false)).await.unwrap().is_ok());
        client.ask(create(&format!("/turn{turn}"))).await.unwrap().unwrap();
        zxid = next.zxid().await;
        running = Some(next);
    }
    client.ask(ZkRequest::CloseSession).await.unwrap().unwrap();
    running.unwrap().shutdown().await;
    let last = server(folder.path()).await;
    assert_eq!(last.session_ids().await, Vec::<i64>::new());
    assert_eq!(last.nodes_count().await, 4 + 1 + 4);
}

/// Starts anew as soon as the previous server, which was only dropped, has released the directory.
async fn reopened(folder: &Path) -> EmbeddedServer {
    loop {
        match EmbeddedServer::builder().data_dir(folder).start().await {
            Ok(server) => return server,
            Err(ServerError::Storage(StorageError::InUse { .. })) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A separate file system with little room; it ends with this value.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where no file system can be mounted.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
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

#[tokio::test]
async fn on_a_full_disk_writes_are_refused_and_go_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mount() else {
        skip(
            "embedded::disk::on_a_full_disk_writes_are_refused_and_go_on_when_there_is_room",
            "no file system can be mounted",
        );
        return;
    };
    let data = disk.0.path().join("data");
    let server = server(&data).await;
    let mut client = Client::tcp(&server).await;
    client.ask(create("/before")).await.unwrap().unwrap();
    let ballast = disk.0.path().join("ballast");
    let mut filling = fs::File::create(&ballast).unwrap();
    while filling.write_all(&[1; 4096]).is_ok() {}
    drop(filling);

    let mut acknowledged = Vec::new();
    let refused = loop {
        let path = format!("/n{}", acknowledged.len());
        let large = ZkRequest::Create(Create {
            path: path.clone(),
            data: Some(vec![5; 100_000].into()),
            acl: vec![Acl::open()],
            mode: CreateMode::Persistent,
        });
        match client.ask(large).await {
            Ok(Ok(_)) => acknowledged.push(path),
            Ok(Err(error)) => break Some(error),
            Err(_) => break None,
        }
        assert!(acknowledged.len() < 1_000, "the disk is full at some point");
    };
    assert_eq!(refused, None, "what could not be stored has no answer");
    let unstored = format!("/n{}", acknowledged.len());
    let mut client = resumed(&server, &client).await;
    assert!(client.ask(exists(&unstored, false)).await.unwrap().is_err(), "it did not take effect");
    for path in &acknowledged {
        assert!(client.ask(exists(path, false)).await.unwrap().is_ok(), "{path}: reads go on");
    }
    assert_eq!(client.ask(create("/refused")).await.unwrap(), Err(ErrorCode::SystemError));

    fs::remove_file(&ballast).unwrap();
    let goes_on = async {
        while client.ask(create("/after")).await.unwrap().is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, goes_on).await.expect("the service resumes when there is room");
    drop(server);
    let server = reopened(&data).await;
    let mut client = resumed(&server, &client).await;
    for path in acknowledged.iter().map(String::as_str).chain(["/before", "/after"]) {
        assert!(client.ask(exists(path, false)).await.unwrap().is_ok(), "{path} is on disk");
    }
    assert!(client.ask(exists("/refused", false)).await.unwrap().is_err());
    server.shutdown().await;
}

async fn resumed(server: &EmbeddedServer, client: &Client) -> Client {
    let stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    client.resume(stream).await.unwrap()
}

/// As many nodes as make a snapshot take hundreds of turns.
const MANY_NODES: usize = 50_000;
/// How many large writes lead to a snapshot at most, and how long each is, in bytes.
const LARGE_WRITES_MAX: usize = 2_000;
const LARGE_BYTES: usize = 100_000;

#[tokio::test]
async fn writes_go_on_while_a_snapshot_is_taken_and_all_of_them_are_there_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let mut client = Client::tcp(&server).await;
    for first in (0..MANY_NODES).step_by(1_000) {
        let node = |at: usize| {
            MultiOperation::Create(Create {
                path: format!("/n{at:06}"),
                data: Some(vec![1; 100].into()),
                acl: vec![Acl::open()],
                mode: CreateMode::Persistent,
            })
        };
        client.ask(ZkRequest::Multi((first..first + 1_000).map(node).collect())).await.unwrap().unwrap();
    }
    let is_under_way = || {
        let mut names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.any(|name| {
            name.to_str().unwrap().starts_with("snapshot.") && name.to_str().unwrap().ends_with(".unfinished")
        })
    };
    let set = |data: Vec<u8>| ZkRequest::SetData { path: "/n000000".into(), data: Some(data.into()), version: -1 };
    let (mut written, mut meanwhile) = (0, 0);
    while meanwhile == 0 || is_under_way() {
        client.ask(set(vec![2; if meanwhile == 0 { LARGE_BYTES } else { 10 }])).await.unwrap().unwrap();
        written += 1;
        meanwhile += usize::from(is_under_way());
        assert!(written < LARGE_WRITES_MAX, "a snapshot was taken at some point");
    }
    assert!(meanwhile > 20, "{meanwhile} writes of {written} were answered while a snapshot was taken");
    drop(server);
    let server = reopened(folder.path()).await;
    assert_eq!(server.nodes_count().await, 4 + MANY_NODES);
    let mut client = resumed(&server, &client).await;
    let stat = match client.ask(exists("/n000000", false)).await.unwrap().unwrap() {
        ZkResponse::Stat(stat) => stat,
        other => panic!("{other:?}"),
    };
    assert_eq!((stat.version, stat.data_length), (written as i32, 10));
    server.shutdown().await;
}

#[tokio::test]
async fn a_directory_that_is_removed_or_moved_is_noticed_and_writes_are_refused_for_good() {
    for how in ["removed", "moved", "emptied"] {
        let folder = tempfile::tempdir().unwrap();
        let (data, elsewhere) = (folder.path().join("data"), folder.path().join("elsewhere"));
        let server = server(&data).await;
        let mut client = Client::tcp(&server).await;
        client.ask(create("/before")).await.unwrap().unwrap();
        // The system counts a directory's time in ticks: what follows is a later one than the start's.
        tokio::time::sleep(SYSTEM_TICK_MAX).await;
        match how {
            "removed" => fs::remove_dir_all(&data).unwrap(),
            "moved" => fs::rename(&data, &elsewhere).unwrap(),
            _ => fs::read_dir(&data).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap()),
        }
        // The write that would be lost is the one that notices.
        assert!(client.ask(create("/lost")).await.is_err(), "what could not be stored has no answer");
        let mut client = resumed(&server, &client).await;
        assert!(client.ask(exists("/before", false)).await.unwrap().is_ok(), "reads go on");
        assert_eq!(client.ask(create("/refused")).await.unwrap(), Err(ErrorCode::SystemError));
        if how == "moved" {
            fs::rename(&elsewhere, &data).unwrap();
            assert_eq!(client.ask(create("/refused")).await.unwrap(), Err(ErrorCode::SystemError));
        }
        server.shutdown().await;
    }
}

#[tokio::test]
async fn an_idle_server_notices_that_its_directory_was_removed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = server(&data).await;
    let mut client = Client::tcp(&server).await;
    fs::remove_dir_all(&data).unwrap();
    // Its connection is cut when it does.
    let noticed = async { while client.ask(exists("/", false)).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, noticed).await.expect("it is noticed");
    let mut client = resumed(&server, &client).await;
    assert_eq!(client.ask(create("/refused")).await.unwrap(), Err(ErrorCode::SystemError));
    server.shutdown().await;
}
