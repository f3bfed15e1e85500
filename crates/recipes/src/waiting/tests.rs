//! Places in line and their waits, on the memory backend under paused time.

use std::time::Duration;

use lockkeeper_core::{ErrorKind, Operation, SafeUntil, Wait};

use crate::LockKind;
use crate::tests::{AT_ONCE, at_once, keepers, service};

const WHILE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_waiter_sees_its_place_come_nearer_and_who_holds() {
    let [ann, bob, eve] = keepers(&service());
    let holder = ann.mutex("m").unwrap().lock().await.unwrap();
    let second = bob.mutex("m").unwrap().queue_up().await.unwrap();
    let mut third = eve.mutex("m").unwrap().queue_up().await.unwrap();
    assert_eq!(third.position().await.unwrap(), 2);
    assert_eq!(third.holders().await.unwrap()[0].id, *holder.hold().contender());
    assert!(third.granted_within(Wait::AtMost(WHILE)).await.unwrap().is_none());
    holder.release().await.unwrap();
    assert_eq!(second.position().await.unwrap(), 0);
    let second = at_once("the grant", second.granted()).await.unwrap();
    assert_eq!(third.position().await.unwrap(), 1);
    assert!(third.granted_within(Wait::No).await.unwrap().is_none());
    second.release().await.unwrap();
    let granted = third.granted_within(Wait::No).await.unwrap().unwrap();
    assert!(granted.hold().is_held());
    assert_eq!(third.contender(), None);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_leaves_the_queue_and_a_dropped_look_at_it_does_not() {
    let [ann, bob, eve] = keepers(&service());
    let holder = ann.mutex("m").unwrap().lock().await.unwrap();
    let mut second = bob.mutex("m").unwrap().queue_up().await.unwrap();
    let third = eve.mutex("m").unwrap().queue_up().await.unwrap();
    for _ in 0..3 {
        assert!(tokio::time::timeout(AT_ONCE, second.granted_within(Wait::AtMost(WHILE))).await.is_err());
        assert_eq!(second.position().await.unwrap(), 1);
    }
    let granted = second.granted();
    assert!(tokio::time::timeout(AT_ONCE, granted).await.is_err());
    assert_eq!(third.position().await.unwrap(), 1);
    drop(holder);
    assert!(at_once("the grant", third.granted()).await.unwrap().hold().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_grant_between_two_looks_is_not_missed() {
    let [ann, bob] = keepers(&service());
    let holder = ann.mutex("m").unwrap().lock().await.unwrap();
    let mut second = bob.mutex("m").unwrap().queue_up().await.unwrap();
    assert!(second.granted_within(Wait::AtMost(AT_ONCE)).await.unwrap().is_none());
    holder.release().await.unwrap();
    let third = ann.mutex("m").unwrap().queue_up().await.unwrap();
    assert!(at_once("the grant", second.granted_within(Wait::AtMost(WHILE))).await.unwrap().is_some());
    assert_eq!(third.position().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_session_expires_or_whose_reply_is_lost_queues_up_again() {
    let [ann, bob] = keepers(&service());
    let holder = ann.mutex("m").unwrap().lock().await.unwrap();
    bob.testing().unwrap().drop_next_reply(Operation::Join);
    let mut second = bob.mutex("m").unwrap().queue_up().await.unwrap();
    assert_eq!(ann.contenders("m").await.unwrap().len(), 2);
    let before = second.contender().cloned();
    bob.testing().unwrap().expire_session();
    assert!(second.position().await.is_err());
    assert!(second.granted_within(Wait::AtMost(WHILE)).await.unwrap().is_none());
    assert_ne!(second.contender().cloned(), before);
    assert_eq!(second.position().await.unwrap(), 1);
    holder.release().await.unwrap();
    assert!(at_once("the grant", second.granted()).await.unwrap().hold().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_removed_is_told() {
    let [ann, bob] = keepers(&service());
    let _holder = ann.mutex("m").unwrap().lock().await.unwrap();
    let second = bob.mutex("m").unwrap().queue_up().await.unwrap();
    ann.testing().unwrap().remove_contender("m", second.contender().unwrap()).unwrap();
    assert_eq!(second.position().await.unwrap_err().kind(), ErrorKind::Removed);
    assert_eq!(at_once("the refusal", second.granted()).await.unwrap_err().kind(), ErrorKind::Removed);
}

#[tokio::test(start_paused = true)]
async fn readers_writers_and_candidates_see_their_places_too_and_why_a_lock_is_frozen() {
    let [ann, bob] = keepers(&service());
    let lock = ann.rw_lock("r").unwrap();
    let first = at_once("the grant", lock.queue_up_to_read().await.unwrap().granted()).await.unwrap();
    let write = lock.queue_up_to_write().await.unwrap();
    assert_eq!(write.position().await.unwrap(), 1);
    drop(first);
    assert!(at_once("the grant", write.granted()).await.unwrap().hold().is_held());
    bob.admin().freeze("e", LockKind::Election, "moving disks", Wait::Forever).await.unwrap();
    let candidate = ann.election("e").unwrap().stand().await.unwrap();
    assert_eq!(candidate.holders().await.unwrap()[0].frozen.as_deref(), Some("moving disks"));
    bob.admin().thaw("e").await.unwrap();
    assert!(at_once("the grant", candidate.granted()).await.unwrap().hold().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_look_without_patience_says_once_that_the_place_was_lost_and_then_tries_without_it() {
    let [ann, bob] = keepers(&service());
    for removed in [false, true] {
        let holder = ann.mutex("m").unwrap().lock().await.unwrap();
        let mut second = bob.mutex("m").unwrap().queue_up().await.unwrap();
        if removed {
            ann.testing().unwrap().remove_contender("m", second.contender().unwrap()).unwrap();
        } else {
            bob.testing().unwrap().expire_session();
        }
        assert!(second.granted_within(Wait::No).await.is_err());
        assert_eq!(second.contender(), None);
        assert!(second.granted_within(Wait::No).await.unwrap().is_none());
        holder.release().await.unwrap();
        assert!(second.granted_within(Wait::No).await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_without_patience_that_fails_for_a_moment_costs_no_place() {
    let [ann, bob] = keepers(&service());
    let _holder = ann.mutex("m").unwrap().lock().await.unwrap();
    let mut second = bob.mutex("m").unwrap().queue_up().await.unwrap();
    let before = second.contender().cloned();
    bob.testing().unwrap().cut(SafeUntil::ProcessEnd);
    assert!(second.granted_within(Wait::No).await.is_err());
    bob.testing().unwrap().heal();
    assert!(second.granted_within(Wait::No).await.unwrap().is_none());
    assert_eq!(second.contender().cloned(), before);
}
