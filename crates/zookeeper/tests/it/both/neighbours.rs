//! Contenders of one session that wait for one another: what that costs the service, and what it proves.

use lockkeeper_conformance::{granted, soon, until};
use lockkeeper_core::{Departure, LossReason, Mode};
use lockkeeper_faults::proxy::{Direction, Operation};

use super::SERVER;
use crate::support::Bench;
use crate::support::waist::line;

#[tokio::test]
async fn contenders_of_one_session_watch_their_own_nodes_and_not_one_another() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let ann = bench.party("");
    let mut guard = ann.lock("door").await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(ann.queue_up("door").await);
    }
    for next in waiting {
        soon("the release", guard.release()).await.unwrap();
        guard = granted(next).await;
    }
    guard.release().await.unwrap();
    let reads = bench.proxy.count(Direction::ToServer, Operation::GET_DATA);
    assert!((5..=6).contains(&reads), "{reads} reads for the watches on six nodes");
}

#[tokio::test]
async fn a_writer_is_granted_after_readers_of_its_session_without_another_look() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let ann = bench.party("");
    let lock = ann.keeper.rw_lock("door").unwrap();
    let readers = [lock.read().await.unwrap(), lock.read().await.unwrap(), lock.read().await.unwrap()];
    let writer = {
        let lock = lock.clone();
        ann.queue_up_for(async move { lock.write().await }).await
    };
    let count = |operation| bench.proxy.count(Direction::ToServer, operation);
    until("the watches on all four nodes", async || count(Operation::GET_DATA) == 4).await;
    let lists = count(Operation::GET_CHILDREN);
    for reader in readers {
        assert!(!writer.is_finished());
        reader.release().await.unwrap();
    }
    granted(writer).await.release().await.unwrap();
    assert_eq!((count(Operation::GET_CHILDREN), count(Operation::GET_DATA)), (lists, 4));
}

#[tokio::test]
async fn one_that_was_removed_is_not_told_that_the_one_ahead_has_left() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (ann, operator) = (bench.waist("").await, bench.operator().await);
    let (ticket, held) = ann.take(&line("door"), Mode::Mutex).await;
    let (_, waiter) = ann.take(&line("door"), Mode::Mutex).await;
    operator.delete(&format!("/lockkeeper/door/{}", waiter.id), None).await.unwrap();
    // The deletion goes before the watch on the removed node, and is answered before it.
    let waiting = ann.session.departure(&line("door"), Some(&waiter.id), &held.id, waiter.view.connection);
    let leaving = ann.session.withdraw(&line("door"), ticket);
    assert_eq!(soon("the end of the wait", waiting).await.unwrap(), Departure::Recheck);
    soon("the leave", leaving).await.unwrap();
    assert_eq!(soon("the loss", waiter.standing.lost()).await, LossReason::Removed);
}
