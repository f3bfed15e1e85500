//! An operator's work on the memory backend.

use std::time::Duration;

use super::LockKind;
use crate::paused::{AT_ONCE, at_once, keepers, service};
use lockkeeper_core::{ErrorKind, FencingToken, LossReason, Mode, Operation, Revocation, SafeUntil, Wait};

const WHILE: Duration = Duration::from_secs(60);

fn because(why: &str) -> Revocation {
    Revocation::new(Some(why.to_owned()), None)
}

/// Curator's `testRevoking`.
#[tokio::test(start_paused = true)]
async fn a_holder_that_is_asked_gives_the_lock_up_and_the_caller_is_told() {
    let service = service();
    let [ann, bob] = keepers(&service);
    let guard = ann.mutex("m").unwrap().lock().await.unwrap();
    let holder = tokio::spawn(async move {
        let asked = guard.hold().revoked().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        guard.release().await.map(|()| asked)
    });
    assert!(bob.revoke("m", because("deploying"), Wait::AtMost(WHILE)).await.unwrap().is_some());
    assert_eq!(holder.await.unwrap().unwrap().why.as_deref(), Some("deploying"));
    assert!(bob.mutex("m").unwrap().try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_does_not_listen_keeps_the_lock_and_a_waiter_is_not_asked() {
    let service = service();
    let [ann, bob, eve] = keepers(&service);
    let guard = ann.mutex("m").unwrap().lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = bob.mutex("m").unwrap();
        async move { mutex.lock().await }
    });
    tokio::task::yield_now().await;
    assert!(eve.revoke("m", because("x"), Wait::AtMost(Duration::from_secs(3))).await.unwrap().is_none());
    assert!(eve.revoke("m", because("x"), Wait::No).await.unwrap().is_none());
    assert!(guard.hold().is_held());
    let shown = eve.contenders("m").await.unwrap();
    assert_eq!(shown.iter().map(|info| info.revocation.is_some()).collect::<Vec<_>>(), [true, false]);
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(tokio::time::timeout(WHILE, next.hold().revoked()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn all_holders_of_a_shared_lock_and_of_a_semaphore_are_asked() {
    let service = service();
    let [ann, bob, eve] = keepers(&service);
    assert!(eve.revoke("free", Revocation::default(), Wait::AtMost(WHILE)).await.unwrap().is_some());
    let reads = [ann.rw_lock("r").unwrap().read().await.unwrap(), bob.rw_lock("r").unwrap().read().await.unwrap()];
    let [first, second] = reads.map(|guard| {
        tokio::spawn(async move {
            guard.hold().revoked().await;
            guard.release().await
        })
    });
    assert!(eve.revoke("r", Revocation::default(), Wait::AtMost(WHILE)).await.unwrap().is_some());
    at_once("the release", first).await.unwrap().unwrap();
    at_once("the release", second).await.unwrap().unwrap();
    let permits = ann.semaphore("s", 3).unwrap().acquire_many(2).await.unwrap();
    assert!(eve.revoke("s", Revocation::default(), Wait::AtMost(AT_ONCE)).await.unwrap().is_none());
    for permit in permits {
        at_once("the request", permit.hold().revoked()).await;
    }
    assert!(eve.revoke("s", Revocation::default(), Wait::AtMost(AT_ONCE)).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_broken_only_with_the_holder_s_token_and_the_next_one_gets_it() {
    let service = service();
    let [ann, bob, eve] = keepers(&service);
    let guard = ann.mutex("m").unwrap().lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = bob.mutex("m").unwrap();
        async move { mutex.lock().await }
    });
    tokio::task::yield_now().await;
    let stale = FencingToken::new(guard.fencing_token().as_u64() + 100, 0).unwrap();
    let waiter_s = eve.contenders("m").await.unwrap()[1].token.unwrap();
    for wrong in [stale, waiter_s] {
        let error = eve.break_lock("m", wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TokenMismatch);
        assert!(error.to_string().contains(&guard.fencing_token().to_string()), "{error}");
    }
    assert!(guard.hold().is_held());
    let broken = eve.break_lock("m", guard.fencing_token()).await.unwrap();
    assert_eq!((&broken.id, broken.mode), (guard.hold().contender(), Mode::Mutex));
    assert!(broken.owner.is_some());
    assert_eq!(at_once("the loss", guard.hold().lost()).await, LossReason::Broken);
    let next = at_once("the grant", waiting).await.unwrap().unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost(LossReason::Broken));
    assert!(next.hold().is_held());
}

#[tokio::test(start_paused = true)]
async fn one_permit_of_many_is_broken_by_its_token() {
    let keeper = service().keeper();
    let permits = keeper.semaphore("s", 2).unwrap().acquire_many(2).await.unwrap();
    keeper.break_lock("s", permits[1].fencing_token()).await.unwrap();
    assert!(permits[0].hold().is_held() && !permits[1].hold().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_frozen_lock_of_any_kind_keeps_all_clients_out_until_any_client_thaws_it() {
    for kind in [LockKind::Mutex, LockKind::ReadWrite, LockKind::Semaphore, LockKind::Election] {
        let service = service();
        let [ann, bob, eve] = keepers(&service);
        let left = ann.freeze("l", kind, "moving disks", Wait::AtMost(WHILE)).await.unwrap().unwrap();
        assert_eq!((left.frozen.as_deref(), left.token.is_some()), (Some("moving disks"), true));
        ann.close().await.unwrap();
        drop(ann);
        let entered = tokio::spawn(async move {
            match kind {
                LockKind::Mutex => drop(bob.mutex("l")?.lock().await?),
                LockKind::ReadWrite => drop(bob.rw_lock("l")?.read().await?),
                LockKind::Semaphore => drop(bob.semaphore("l", 2)?.acquire().await?),
                LockKind::Election => drop(bob.election("l")?.campaign().await?),
            }
            Ok::<_, lockkeeper_core::Error>(())
        });
        tokio::time::sleep(WHILE).await;
        assert!(!entered.is_finished(), "{kind:?}");
        assert_eq!(eve.contenders("l").await.unwrap()[0].frozen.as_deref(), Some("moving disks"));
        if kind == LockKind::Election {
            assert!(eve.election("l").unwrap().leader().await.unwrap().is_none());
        }
        let thawed = eve.thaw("l").await.unwrap();
        assert_eq!(thawed.iter().map(|info| &info.id).collect::<Vec<_>>(), [&left.id]);
        at_once("the grant after the thaw", entered).await.unwrap().unwrap();
        assert!(eve.thaw("l").await.unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_freeze_waits_its_turn_and_leaves_the_queue_when_its_time_is_up() {
    let service = service();
    let [ann, bob] = keepers(&service);
    let guard = ann.mutex("m").unwrap().lock().await.unwrap();
    for timeout in [Duration::ZERO, Duration::from_secs(3)] {
        assert!(bob.freeze("m", LockKind::Mutex, "x", Wait::AtMost(timeout)).await.unwrap().is_none());
        assert_eq!(ann.contenders("m").await.unwrap().len(), 1);
    }
    let freezing = tokio::spawn(async move { bob.freeze("m", LockKind::Mutex, "x", Wait::Forever).await });
    tokio::time::sleep(WHILE).await;
    assert!(!freezing.is_finished());
    guard.release().await.unwrap();
    assert!(at_once("the freeze", freezing).await.unwrap().unwrap().is_some());
    let refused = ann.freeze("m", LockKind::Election, "y", Wait::Forever).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::KindMismatch);
    assert_eq!(ann.contenders("m").await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_is_frozen_when_all_permits_are_given_back() {
    let service = service();
    let [ann, bob, eve] = keepers(&service);
    let permit = ann.semaphore("s", 2).unwrap().acquire().await.unwrap();
    let freezing = tokio::spawn(async move { bob.freeze("s", LockKind::Semaphore, "x", Wait::Forever).await });
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
            async move { bob.freeze("m", LockKind::Mutex, "x", wait).await }
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
    let freezing = bob.freeze("m", LockKind::Mutex, "x", Wait::Forever);
    assert!(tokio::time::timeout(AT_ONCE, freezing).await.is_err());
    assert_eq!(ann.contenders("m").await.unwrap().len(), 1);
    guard.release().await.unwrap();
    bob.testing().unwrap().drop_next_reply(Operation::Join);
    assert!(bob.freeze("m", LockKind::Mutex, "x", Wait::AtMost(WHILE)).await.unwrap().is_some());
    assert_eq!(ann.contenders("m").await.unwrap().len(), 1);
}
