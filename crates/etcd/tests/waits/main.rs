//! Thousands of waits at once over one connection: each departure wakes one, soon. It is a separate binary, since it
//! has long rounds.

#[path = "../support/service.rs"]
mod service;

use std::time::Duration;

use lockkeeper_faults::etcd::Server;
use lockkeeper_trials::waist;

use crate::service::ETCD;

/// How many wait in the long run; the plain one has a tenth.
const WAITS: u32 = 5_000;

/// How long after a departure was asked for the one behind it is told, at the median.
const TOLD_WITHIN_MEDIAN: Duration = Duration::from_millis(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_departure_is_told_to_the_one_wait_for_it_within_milliseconds() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    waist::each_is_told(&ETCD, &[server.address()], WAITS, TOLD_WITHIN_MEDIAN).await;
}
