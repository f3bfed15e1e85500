//! `lockkeeper run --slot` on each service, with fifty runs a slot that are killed and stopped.

use lockkeeper_faults::long;

use crate::services::{Server, Service, on_each};
use crate::support::{Place, slots};

/// How many runs come for each slot.
const RUNS: usize = 50;

/// How many slots there are in the long run.
const SLOTS: u32 = 100;

/// Short, since what is behind one that was killed waits for its end.
const SETTINGS: &str = "session_timeout=4s";

async fn play(_: Service, server: Server) {
    let (url, slots) = (server.url(), long::rounds(SLOTS) as usize);
    let separator = if url.contains('?') { '&' } else { '?' };
    let place = Place::of(&format!("{url}{separator}{SETTINGS}"));
    let playing = tokio::task::spawn_blocking(move || slots::play(&place, [RUNS, slots]));
    playing.await.expect("no slot was repeated or left undone");
    drop(server);
}

on_each! { play:
    Etcd "etcd" no_slot_is_repeated_or_left_undone_on_etcd;
    Redis "redis" no_slot_is_repeated_or_left_undone_on_redis;
    PostgreSql "postgres" no_slot_is_repeated_or_left_undone_on_postgresql;
    MariaDb "mysql" no_slot_is_repeated_or_left_undone_on_mariadb;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_slot_is_repeated_or_left_undone_on_zookeeper() {
    if let Some(server) = Service::ZooKeeper.start().await {
        play(Service::ZooKeeper, server).await;
    }
}
