//! The ground on which peers take turns: each peer and a Rust process see each other there. What excludes what, the
//! tests of the backend say, which play each recipe beside ours and beside the other peers'. Skips by name where a peer
//! is missing.

use std::time::Duration;

use lockkeeper_faults::peers::{Ground, Kind, Mode, Peer, curator, go, kazoo};
use lockkeeper_faults::wait::PATIENCE;
use lockkeeper_faults::zookeeper::{Server, Setup};
use lockkeeper_faults::{Availability, Result};

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// A Rust process and a peer's threads on one ground, under a lock that is free.
async fn see_each_other(kind: Kind, available: Availability, start: impl AsyncFn(&str) -> Result<Peer>) {
    if !available.or_skip_here() {
        return;
    }
    let setup = Setup::new().tick(Duration::from_millis(500));
    let Some(server) = Server::start_or_skip(setup).await else { return };
    let mut peer = start(&server.address().to_string()).await.expect("a peer");
    let ground = Ground::new().expect("a ground");
    let inside = ground.enter(Mode::Read, "ours", "/turns/none").expect("entered");
    let most = peer.take_turns(kind, "/turns", &ground, (1, 5), PATIENCE).await;
    assert_eq!(most, Ok(2));
    assert_eq!(ground.faults().expect("faults").len(), 5);
    inside.leave().expect("left");
    assert_eq!(ground.faults().expect("faults").len(), 6, "the number was not the same");
    assert_eq!(ground.visit(Mode::Write, "ours", "/turns/none").await, Ok(1));
    assert_eq!(ground.number(), Ok(6));
    assert_eq!(ground.grants().expect("grants").len(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ground_shows_curator_a_process_that_does_not_take_turns() {
    let start = async |connect: &str| curator::start(connect, SESSION_TIMEOUT).await;
    see_each_other(Kind::Write, curator::availability(), start).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ground_shows_kazoo_a_process_that_does_not_take_turns() {
    let start = async |connect: &str| kazoo::start(connect, SESSION_TIMEOUT).await;
    see_each_other(Kind::Write, kazoo::availability(), start).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ground_shows_go_zookeeper_a_process_that_does_not_take_turns() {
    let start = async |connect: &str| go::start(connect, SESSION_TIMEOUT).await;
    see_each_other(Kind::Mutex, go::availability(), start).await;
}
