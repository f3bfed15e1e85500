//! Servers that are of no use: one clear line, and the others are tried.

use lockkeeper_conformance::soon;
use lockkeeper_core::Backend;
use lockkeeper_faults::redis::Server;
use lockkeeper_trials::waist::session;
use tokio::net::TcpListener;

use crate::client::{backend, open};

#[tokio::test]
async fn a_replica_is_told_and_the_master_in_the_same_url_is_found() {
    let Some(master) = Server::standalone_or_skip().await else { return };
    let replica = Server::standalone().await.expect("a server");
    let port = master.address().port().to_string();
    replica.ask::<String>(&["REPLICAOF", "127.0.0.1", &port]).await.expect("it follows");
    // As long as a busy machine takes for any answer.
    let follower = backend(replica.address(), "?connect_timeout=60s");
    let of_look = soon("the failure", follower.admin().queues("")).await.expect_err("it is no master");
    let error = soon("the failure", follower.session()).await.map(drop).expect_err("it is no master");
    assert_eq!(of_look.kind(), error.kind(), "{of_look:#}");
    let told = format!("{error:#}");
    assert!(told.contains("is a replica") && !told.contains('\n'), "{told}");
    let url = format!("redis://{},{}", replica.address(), master.address());
    let backend = open(&url);
    // Of two sessions, one begins with each.
    for _ in 0..2 {
        session(&backend).await;
    }
}

#[tokio::test]
async fn a_server_that_never_answers_leaves_time_for_the_others() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    // It takes connections in, and no one answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{},{}?connect_timeout=6s", silent.local_addr().expect("it is bound"), server.address());
    let backend = open(&url);
    // Of two sessions, one begins with each; it is opened before the time is up.
    for _ in 0..2 {
        session(&backend).await;
    }
}
