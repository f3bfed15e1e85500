//! The server's word on its own load.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_zk_server::EmbeddedServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{Client, create, exists};

async fn word(server: &EmbeddedServer, word: &str) -> String {
    let mut stream = server.connect_duplex();
    stream.write_all(word.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn monitor(server: &EmbeddedServer) -> BTreeMap<String, f64> {
    let answer = word(server, "mntr").await;
    let rows = answer.lines().filter_map(|line| line.strip_prefix("zk_")?.split_once('\t'));
    rows.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

#[tokio::test(start_paused = true)]
async fn latency_is_measured_from_the_reading_of_a_request_to_its_answer() {
    let server = EmbeddedServer::start().await.unwrap();
    let mut client = Client::duplex(&server).await;
    assert_eq!(monitor(&server).await["max_latency"], 0.0);
    for _ in 0..2 {
        client.ask(exists("/", false)).await.unwrap().unwrap();
    }
    server.pause();
    let asked = tokio::spawn(async move { client.ask(exists("/", false)).await });
    tokio::time::sleep(Duration::from_secs(8)).await;
    server.resume();
    asked.await.unwrap().unwrap().unwrap();
    let rows = monitor(&server).await;
    // The handshake and three requests, one of which took long.
    assert_eq!((rows["min_latency"], rows["avg_latency"], rows["max_latency"]), (0.0, 2_000.0, 8_000.0), "{rows:?}");
    assert_eq!((rows["outstanding_requests"], rows["uptime"]), (0.0, 8_000.0), "{rows:?}");
    for about in ["srvr", "stat"] {
        let answer = word(&server, about).await;
        assert!(answer.contains("\nLatency min/avg/max: 0/2000.0000/8000\n"), "{answer}");
        assert!(answer.contains("\nOutstanding: 0\n"), "{answer}");
    }
}

#[tokio::test]
async fn descriptors_and_flushes_are_counted_and_a_restart_forgets_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = EmbeddedServer::builder().data_dir(directory.path()).start().await.unwrap();
    let mut client = Client::tcp(&server).await;
    client.ask(create("/a")).await.unwrap().unwrap();
    let before = monitor(&server).await;
    assert!(before["open_file_descriptor_count"] > 3.0, "{before:?}");
    assert!(before["max_file_descriptor_count"] >= before["open_file_descriptor_count"], "{before:?}");
    assert!(before["avg_latency"] > 0.0, "{before:?}");
    // The session's and the node's.
    assert_eq!(before["cnt_fsynctime"], 2.0, "{before:?}");
    server.restart().await;
    let after = monitor(&server).await;
    assert_eq!(after["avg_latency"], before["avg_latency"]);
    assert!(after["uptime"] >= before["uptime"]);
}
