//! Whole scenarios under paused time: minutes pass in milliseconds.

use std::time::Duration;

use lockkeeper_zk_proto::message::{CreateMode, ZkRequest};
use lockkeeper_zk_server::{EmbeddedServer, Seed};
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Client, create_as, exists};

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
