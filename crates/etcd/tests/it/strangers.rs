//! Servers that are no etcd, that never answer, and ports without one: one clear line each, and the others are tried.

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, Error, ErrorKind};
use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_trials::waist::session;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::client::{backend, open};

/// A server that says this to each client once it has heard something.
async fn stranger(says: &'static [u8]) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut heard = [0; 256];
                let _ = stream.read(&mut heard).await;
                let _ = stream.write_all(says).await;
                // It says no more, and stays.
                while stream.read(&mut heard).await.is_ok_and(|length| length > 0) {}
            });
        }
    });
    address
}

/// As long as a busy machine takes for any answer, and much less than that.
const PATIENT: &str = "?connect_timeout=60s";
const HASTY: &str = "?connect_timeout=500ms";

async fn failure(address: std::net::SocketAddr, settings: &str) -> Error {
    let backend = backend(address, settings);
    soon("the failure", backend.session()).await.map(drop).expect_err("no etcd is there")
}

#[tokio::test]
async fn what_is_no_etcd_is_told_in_one_line_with_its_address() {
    let unused = ReservedPort::take().expect("a port");
    let silent = stranger(b"").await;
    for (address, kind, word) in [
        (unused.address(), ErrorKind::ConnectionLost, "refused"),
        (stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n").await, ErrorKind::Backend, "an HTTP server"),
        (silent, ErrorKind::ConnectionLost, "not answered"),
    ] {
        let error = failure(address, if address == silent { HASTY } else { PATIENT }).await;
        let told = format!("{error:#}");
        assert_eq!(error.kind(), kind, "{told}");
        assert!(told.contains(word) && told.contains(&address.to_string()) && !told.contains('\n'), "{told}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_may_be_no_etcd_or_speak_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let error = failure(address, PATIENT).await;
    let told = format!("{error:#}");
    assert_eq!(error.kind(), ErrorKind::ConnectionLost, "{told}");
    let has_all = ["if it is an etcd", "`etcd+tls:`", &address.to_string()].iter().all(|word| told.contains(word));
    assert!(has_all && !told.contains('\n'), "{told}");
}

#[tokio::test]
async fn a_server_that_is_not_there_costs_no_more_than_the_connect_timeout() {
    let address = stranger(b"").await;
    let since_call = Sleeper::start();
    failure(address, HASTY).await;
    assert!(since_call.slept() < Duration::from_secs(2), "{:?}", since_call.slept());
}

#[tokio::test]
async fn a_member_that_never_answers_leaves_time_for_the_others() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let silent = stranger(b"").await;
    let url = format!("etcd://{silent},{}?connect_timeout=6s", server.address());
    let backend = open(&url);
    // Looks begin with the first server of the URL; of two sessions, one begins with each.
    let named = soon("the names", backend.admin().queues("")).await;
    assert!(named.is_ok_and(|named| named.is_empty()), "the other member answers looks");
    for _ in 0..2 {
        session(&backend).await;
    }
}
