//! An operator's work on the memory backend.

use std::time::Duration;

use lockkeeper_core::{ErrorKind, Operation, Revocation, SafeUntil, Wait};

use crate::admin::operate::LockKind;
use crate::tests::{AT_ONCE, at_once, keepers, service};

const WHILE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn all_holders_of_a_shared_lock_and_of_a_semaphore_are_asked() {
    let service = service();
    let [ann, bob, eve] = keepers(&service);
    assert!(eve.admin().revoke("free", Revocation::default(), Wait::AtMost(WHILE)).await.unwrap().is_some());
    let reads = [ann.rw_lock("r").unwrap().read().await.unwrap(), bob.rw_lock("r").unwrap().read().await.unwrap()];
    let [first, second] = reads.map(|guard| {
        tokio::spawn(async move {
            guard.hold().revoked().await;
            guard.release().await
        })
    });
    assert!(eve.admin().revoke("r", Revocation::default(), Wait::AtMost(WHILE)).await.unwrap().is_some());
    at_once("the release", first).await.unwrap().unwrap();
    at_once("the release", second).await.unwrap().unwrap();
    let permits = ann.semaphore("s", 3).unwrap().acquire_many(2).await.unwrap();
    assert!(eve.admin().revoke("s", Revocation::default(), Wait::AtMost(AT_ONCE)).await.unwrap().is_none());
    for permit in permits {
        at_once("the request", permit.hold().revoked()).await;
    }
    assert!(eve.admin().revoke("s", Revocation::default(), Wait::AtMost(AT_ONCE)).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_is_frozen_when_all_permits_are_given_back() {
    let service = service();
    let [ann, bob, eve] = keepers(&service);
    let permit = ann.semaphore("s", 2).unwrap().acquire().await.unwrap();
    let freezing = tokio::spawn(async move { bob.admin().freeze("s", LockKind::Semaphore, "x", Wait::Forever).await });
    tokio::time::sleep(WHILE).await;
    assert!(!freezing.is_finished());
    assert!(eve.semaphore("s", 2).unwrap().try_acquire().await.unwrap().is_none(), "one is free, but not granted");
    permit.release().await.unwrap();
    assert!(at_once("the freeze", freezing).await.unwrap().unwrap().is_some());
}

/// Its place outlives the session, so it neither loses its turn nor stays behind when it gives up.
#[tokio::test(start_paused = true)]
async fn a_freeze_whose_session_expires_while_it_waits_keeps_its_place_and_can_still_give_up() {
    for in_time in [true, false] {
        let service = service();
        let [ann, bob] = keepers(&service);
        let guard = ann.mutex("m").unwrap().lock().await.unwrap();
        let wait = Wait::AtMost(if in_time { 10 * WHILE } else { WHILE });
        let freezing = tokio::spawn({
            let bob = bob.clone();
            async move { bob.admin().freeze("m", LockKind::Mutex, "x", wait).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = ann.contenders("m").await.unwrap();
        bob.testing().unwrap().cut(SafeUntil::ProcessEnd);
        bob.testing().unwrap().expire_session();
        tokio::time::sleep(Duration::from_secs(20)).await;
        bob.testing().unwrap().heal();
        tokio::time::sleep(Duration::from_secs(20)).await;
        let after = ann.contenders("m").await.unwrap();
        assert_eq!(after.iter().map(|info| &info.id).collect::<Vec<_>>(), [&before[0].id, &before[1].id]);
        if in_time {
            guard.release().await.unwrap();
            assert!(at_once("the freeze", freezing).await.unwrap().unwrap().is_some());
        } else {
            assert!(freezing.await.unwrap().unwrap().is_none());
            assert_eq!(ann.contenders("m").await.unwrap().len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_freeze_that_is_cancelled_or_whose_reply_is_lost_leaves_nothing_behind_but_what_it_says() {
    let service = service();
    let [ann, bob] = keepers(&service);
    let guard = ann.mutex("m").unwrap().lock().await.unwrap();
    let freezing = bob.admin().freeze("m", LockKind::Mutex, "x", Wait::Forever);
    assert!(tokio::time::timeout(AT_ONCE, freezing).await.is_err());
    assert_eq!(ann.contenders("m").await.unwrap().len(), 1);
    guard.release().await.unwrap();
    bob.testing().unwrap().drop_next_reply(Operation::Join);
    assert!(bob.admin().freeze("m", LockKind::Mutex, "x", Wait::AtMost(WHILE)).await.unwrap().is_some());
    let refused = ann.admin().freeze("m", LockKind::Election, "y", Wait::Forever).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::KindMismatch);
    assert_eq!(ann.contenders("m").await.unwrap().len(), 1);
}
