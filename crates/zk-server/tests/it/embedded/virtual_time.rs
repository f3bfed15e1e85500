//! Whole scenarios and the measures under paused time: minutes pass in milliseconds.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_zk_proto::message::{CreateMode, ZkRequest};
use lockkeeper_zk_server::{EmbeddedServer, Seed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Client, create, create_as, exists};

async fn server() -> EmbeddedServer {
    EmbeddedServer::builder().without_listener().start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pause_stops_the_servers_time_and_answers_come_after_it() {
    let server = server().await;
    let mut client = Client::duplex(&server).await;
    server.pause();
    client.send(&exists("/", false)).await.unwrap();
    let hour = Duration::from_secs(3_600);
    let waiting = timeout(hour, client.frame()).await;
    assert!(waiting.is_err(), "nothing is answered during the pause");
    server.resume();
    client.frame().await.unwrap();
    sleep(Duration::from_secs(9)).await;
    client.ask(ZkRequest::Ping).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_blackhole_lets_sessions_expire_and_gives_back_what_was_sent() {
    let server = server().await;
    let (mut one, mut other) = (Client::duplex(&server).await, Client::duplex(&server).await);
    server.blackhole(true);
    one.send(&exists("/", false)).await.unwrap();
    assert!(timeout(Duration::from_secs(5), one.frame()).await.is_err());
    server.blackhole(false);
    one.frame().await.unwrap();
    server.blackhole(true);
    sleep(Duration::from_secs(15)).await;
    assert_eq!(server.session_ids().await, Vec::<i64>::new());
    server.blackhole(false);
    assert!(other.ask(ZkRequest::Ping).await.is_err(), "the farewell arrives when the path is open again");
}

#[tokio::test(start_paused = true)]
async fn a_delay_holds_back_every_answer_and_keeps_their_order() {
    let server = server().await;
    let mut client = Client::duplex(&server).await;
    let delay = Duration::from_millis(700);
    server.delay(delay);
    let asked = Instant::now();
    client.send(&exists("/a", false)).await.unwrap();
    client.send(&exists("/b", false)).await.unwrap();
    for xid in [1_i32, 2] {
        assert_eq!(client.frame().await.unwrap()[..4], xid.to_be_bytes());
    }
    assert!(asked.elapsed() >= delay && asked.elapsed() < delay * 2, "{:?}", asked.elapsed());
    server.delay(Duration::ZERO);
    client.ask(ZkRequest::Ping).await.unwrap().unwrap();
    let asked = Instant::now();
    client.ask(ZkRequest::Ping).await.unwrap().unwrap();
    assert!(asked.elapsed() < delay);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_sessions_and_numbers() {
    let seed = Seed { secret: [9; 32], wall_ms: 1_800_000_000_000 };
    let mut seen = Vec::new();
    for _ in 0..2 {
        let server = EmbeddedServer::builder().without_listener().seed(seed).start().await.unwrap();
        let mut client = Client::duplex(&server).await;
        client.ask(create_as("/a", CreateMode::Ephemeral)).await.unwrap().unwrap();
        seen.push((client.session_id, client.password.clone(), server.zxid().await));
    }
    assert_eq!(seen[0], seen[1]);
}

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
    sleep(Duration::from_secs(8)).await;
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
