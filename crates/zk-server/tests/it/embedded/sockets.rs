//! Bad clients, many clients, words and faults, over real sockets and in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_faults::wait::PATIENCE;
use lockkeeper_zk_proto::message::{Acl, Create, CreateMode, ErrorCode, OpCode, Permissions, ZkRequest};
use lockkeeper_zk_server::{EmbeddedServer, ServerError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{Client, create, create_as, exists};

#[tokio::test]
async fn a_client_that_does_not_read_is_read_no_further_and_expires() {
    let server = EmbeddedServer::builder().tick(Duration::from_millis(100)).start().await.unwrap();
    let mut greedy = Client::tcp(&server).await;
    let big = ZkRequest::Create(Create {
        path: "/big".into(),
        data: Some(vec![7; 500_000].into()),
        acl: vec![Acl::open()],
        mode: CreateMode::Persistent,
    });
    greedy.ask(big).await.unwrap().unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    server.set_request_hook(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let read = ZkRequest::GetData { path: "/big".into(), watch: false };
    let flood = async { while greedy.send(&read).await.is_ok() {} };
    timeout(PATIENCE, flood).await.expect("its session expires, for nothing more is heard of it");
    let seen = seen.load(Ordering::Relaxed);
    assert!(seen < 1_000, "{seen} half-megabyte answers were made for a client that reads none");
    let mut other = Client::tcp(&server).await;
    other.ask(ZkRequest::Ping).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_word_is_answered_even_if_the_client_closes_its_side_at_once() {
    let server = EmbeddedServer::start().await.unwrap();
    let mut stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    stream.write_all(b"ruok").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, "imok");
}

#[tokio::test]
async fn an_address_in_use_is_reported() {
    let server = EmbeddedServer::start().await.unwrap();
    let again = EmbeddedServer::builder().listen(server.address().unwrap()).start().await;
    assert!(matches!(again, Err(ServerError::Listen { .. })), "{again:?}");
}

#[tokio::test]
async fn pipelined_requests_of_many_clients_are_all_answered_in_order() {
    let server = EmbeddedServer::start().await.unwrap();
    let mut tasks = Vec::new();
    for number in 0..20 {
        let mut client = Client::tcp(&server).await;
        tasks.push(tokio::spawn(async move {
            for turn in 0..200 {
                client.send(&create(&format!("/c{number}-{turn}"))).await.unwrap();
            }
            for turn in 1..=200_i32 {
                assert_eq!(client.frame().await.unwrap()[..4], turn.to_be_bytes());
            }
            client
        }));
    }
    for task in tasks {
        timeout(PATIENCE, task).await.unwrap().unwrap();
    }
    assert_eq!(server.nodes_count().await, 4 + 20 * 200);
}

/// A listener for both families sees an IPv4 client as `::ffff:127.0.0.1`.
#[tokio::test]
async fn access_by_address_holds_for_clients_of_a_listener_for_both_families() {
    let server = EmbeddedServer::builder().listen("[::]:0".parse().unwrap()).start().await.unwrap();
    let port = server.address().unwrap().port();
    let open = async |host: &str| {
        let stream = TcpStream::connect(format!("{host}:{port}")).await.unwrap();
        Client::open(stream, 0, None).await.unwrap()
    };
    let mut client = open("127.0.0.1").await;
    let node = |path: &str, network: &str| {
        ZkRequest::Create(Create {
            path: path.into(),
            data: None,
            acl: vec![Acl::new(Permissions::ALL, "ip", network)],
            mode: CreateMode::Persistent,
        })
    };
    let child = |path: &str| create(&format!("{path}/child"));
    client.ask(node("/mine", "127.0.0.1")).await.unwrap().unwrap();
    client.ask(child("/mine")).await.unwrap().unwrap();
    client.ask(node("/other", "10.0.0.0/8")).await.unwrap().unwrap();
    assert_eq!(client.ask(child("/other")).await.unwrap(), Err(ErrorCode::NoAuth));
    let mut of_version_6 = open("[::1]").await;
    assert_eq!(of_version_6.ask(child("/mine")).await.unwrap(), Err(ErrorCode::NoAuth));
}

#[tokio::test]
async fn a_dropped_reply_is_lost_after_it_took_effect_and_cuts_the_connection() {
    let server = EmbeddedServer::start().await.unwrap();
    let mut client = Client::tcp(&server).await;
    server.drop_next_reply(OpCode::Create);
    client.ask(exists("/", false)).await.unwrap().unwrap();
    assert!(client.ask(create("/a")).await.is_err());
    let mut client = Client::tcp(&server).await;
    assert_eq!(client.ask(create("/a")).await.unwrap(), Err(ErrorCode::NodeExists));
    assert!(client.ask(create("/b")).await.unwrap().is_ok(), "one reply alone is dropped");
}

#[tokio::test]
async fn an_expired_session_loses_its_nodes_at_once() {
    let server = EmbeddedServer::start().await.unwrap();
    let (mut holder, mut waiter) = (Client::tcp(&server).await, Client::tcp(&server).await);
    holder.ask(create_as("/lock", CreateMode::Ephemeral)).await.unwrap().unwrap();
    waiter.ask(exists("/lock", false)).await.unwrap().unwrap();
    assert!(server.expire_session(holder.session_id).await);
    assert!(!server.expire_session(holder.session_id).await);
    assert_eq!(waiter.ask(exists("/lock", false)).await.unwrap(), Err(ErrorCode::NoNode));
    assert!(holder.ask(ZkRequest::Ping).await.is_err());
    let stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    assert!(holder.resume(stream).await.is_err());
}

#[tokio::test]
async fn a_connection_counts_from_the_call_that_made_it_and_is_cut_in_every_state_of_the_server() {
    let server = EmbeddedServer::start().await.unwrap();
    let mut clients = vec![server.connect_duplex()];
    assert_eq!(server.connections_count().await, 1);
    assert_eq!(server.reset_connections().await, 1);
    server.blackhole(true);
    clients.push(server.connect_duplex());
    assert_eq!(server.reset_connections().await, 1, "nothing comes in, and yet the client is connected");
    server.blackhole(false);
    server.pause();
    clients.push(server.connect_duplex());
    assert_eq!(server.reset_connections().await, 1, "the server is paused, and yet the client is connected");
    server.resume();
    clients.push(server.connect_duplex());
    server.restart().await;
    assert_eq!(server.connections_count().await, 0);
    for mut client in clients {
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "the connection was cut");
    }
}

/// On two threads a connection and its first bytes reach the server by different ways.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_bytes_of_no_connection_are_lost() {
    const CLIENTS: usize = 5_000;
    let server = EmbeddedServer::start().await.unwrap();
    for _ in 0..CLIENTS {
        let mut client = server.connect_duplex();
        client.write_all(b"ruok").await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "imok");
    }
}

#[tokio::test]
async fn a_dropped_server_closes_its_connections_and_its_port() {
    let server = EmbeddedServer::start().await.unwrap();
    let address = server.address().unwrap();
    let mut client = Client::tcp(&server).await;
    drop(server);
    assert!(client.frame().await.is_err());
    // The listening task ends at its next turn.
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
