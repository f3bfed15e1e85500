//! The test double's own faults, over real sockets.

use lockkeeper_zk_proto::message::{CreateMode, ErrorCode, OpCode, ZkRequest};
use lockkeeper_zk_server::EmbeddedServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Client, create, create_as, exists};

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
