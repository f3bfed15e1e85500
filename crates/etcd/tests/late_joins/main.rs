//! Joins that the server takes in late, after their withdrawal was answered. It is a separate binary, since it has
//! long rounds.

#[path = "../support/service.rs"]
mod service;

use lockkeeper_faults::etcd::Server;
use lockkeeper_trials::late::{Stage, Write};

use crate::service::ETCD;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_whose_withdrawal_was_answered_never_stands_in_the_queue_later() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let stage = Stage::new(server.address(), |servers| ETCD.backend(servers, "session_timeout=20s"));
    stage.await.play("etcd, joins", Write::Join).await;
}
