//! Servers that are no Redis of use, and ports without one: one clear line each, and the others are tried.

use std::net::SocketAddr;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Advice, Backend, Error, ErrorKind};
use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::redis::Server;
use lockkeeper_redis::RedisBackend;
use lockkeeper_trials::waist::session;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::client::{backend, can_run};

/// As long as a busy machine takes for any answer.
const PATIENT: &str = "?connect_timeout=60s";

/// A server that says this to each client once it has heard something, and then no more.
async fn stranger(says: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut heard = [0; 256];
                let _ = stream.read(&mut heard).await;
                let _ = stream.write_all(says).await;
                while stream.read(&mut heard).await.is_ok_and(|length| length > 0) {}
            });
        }
    });
    address
}

async fn failure(address: SocketAddr, settings: &str) -> Error {
    let backend = backend(address, settings);
    let of_look = soon("the failure", backend.queues("")).await.expect_err("no Redis of use is there");
    let error = soon("the failure", backend.session()).await.map(drop).expect_err("no Redis of use is there");
    assert_eq!(of_look.kind(), error.kind(), "{of_look:#}");
    error
}

#[tokio::test]
async fn what_is_no_redis_of_use_is_told_in_one_line_with_its_address() {
    let unused = ReservedPort::take().expect("a port");
    let silent = stranger(b"").await;
    for (address, kind, word) in [
        (unused.address(), ErrorKind::ConnectionLost, "refused"),
        (stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n").await, ErrorKind::Backend, "HTTP server"),
        (stranger(b"-ERR unknown command 'HELLO'\r\n").await, ErrorKind::Unsupported, "RESP3"),
        (stranger(b"-LOADING Redis is loading the dataset\r\n").await, ErrorKind::ConnectionLost, "loading its data"),
        (silent, ErrorKind::ConnectionLost, "not answered"),
    ] {
        let error = failure(address, if address == silent { "?connect_timeout=500ms" } else { PATIENT }).await;
        let told = format!("{error:#}");
        assert_eq!(error.kind(), kind, "{told}");
        assert_eq!(error.advice() == Advice::Transient, kind == ErrorKind::ConnectionLost, "{told}");
        assert!(told.contains(word) && told.contains(&address.to_string()) && !told.contains('\n'), "{told}");
    }
}

#[tokio::test]
async fn a_replica_is_told_and_the_master_in_the_same_url_is_found() {
    if !can_run() {
        return;
    }
    let (master, replica) =
        (Server::standalone().await.expect("a server"), Server::standalone().await.expect("a server"));
    let port = master.address().port().to_string();
    replica.ask::<String>(&["REPLICAOF", "127.0.0.1", &port]).await.expect("it follows");
    let told = format!("{:#}", failure(replica.address(), PATIENT).await);
    assert!(told.contains("is a replica") && !told.contains('\n'), "{told}");
    let url = format!("redis://{},{}", replica.address(), master.address());
    let backend = RedisBackend::open(&url.parse().expect("a URL")).expect("a good URL");
    // Of two sessions, one begins with each.
    for _ in 0..2 {
        session(&backend).await;
    }
}

#[tokio::test]
async fn a_server_that_never_answers_leaves_time_for_the_others() {
    if !can_run() {
        return;
    }
    let (silent, server) = (stranger(b"").await, Server::standalone().await.expect("a server"));
    let url = format!("redis://{silent},{}?connect_timeout=6s", server.address());
    let backend = RedisBackend::open(&url.parse().expect("a URL")).expect("a good URL");
    // Of two sessions, one begins with each; it is opened before the time is up.
    for _ in 0..2 {
        session(&backend).await;
    }
}
