//! The promises to an owner, on the memory backend.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{Advice, ErrorKind, LossReason, Mode, SafeUntil, Wait};

use crate::keeper::memory::MemoryService;
use crate::tests::{service, yield_often};
use crate::{Keeper, Mutex, OwnerKey, RwLock};

const TIMEOUT: Duration = Duration::from_secs(2);

async fn modes(keeper: &Keeper, name: &str) -> Vec<Mode> {
    keeper.contenders(name).await.unwrap().into_iter().map(|contender| contender.mode).collect()
}

fn door() -> (Keeper, Mutex, OwnerKey) {
    let keeper = service().keeper();
    let mutex = keeper.mutex("door").unwrap();
    (keeper, mutex, OwnerKey::new())
}

fn book() -> (Keeper, RwLock, OwnerKey) {
    let keeper = service().keeper();
    let rw_lock = keeper.rw_lock("book").unwrap();
    (keeper, rw_lock, OwnerKey::new())
}

#[tokio::test(start_paused = true)]
async fn two_tasks_that_lock_at_once_as_one_owner_share_one_place() {
    let (keeper, mutex, owner) = door();
    let held = mutex.lock().await.unwrap();
    let [one, other] = [(); 2].map(|()| {
        let (owner, mutex) = (owner.clone(), mutex.clone());
        tokio::spawn(async move { owner.lock(&mutex).await })
    });
    yield_often().await;
    assert_eq!(modes(&keeper, "door").await.len(), 2);
    held.release().await.unwrap();
    let (one, other) = (one.await.unwrap().unwrap(), other.await.unwrap().unwrap());
    assert_eq!(one.fencing_token(), other.fencing_token());
    drop(one);
    assert!(other.hold().is_held());
    drop(other);
    assert_eq!(modes(&keeper, "door").await, []);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_shared_the_place_of_a_cancelled_one_goes_on_waiting() {
    let (keeper, mutex, owner) = door();
    let held = mutex.lock().await.unwrap();
    let [one, other] = [(); 2].map(|()| {
        let (owner, mutex) = (owner.clone(), mutex.clone());
        tokio::spawn(async move { owner.lock(&mutex).await })
    });
    yield_often().await;
    one.abort();
    assert!(one.await.unwrap_err().is_cancelled());
    yield_often().await;
    assert_eq!(modes(&keeper, "door").await.len(), 2);
    held.release().await.unwrap();
    other.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(modes(&keeper, "door").await, []);
    assert_eq!(owner.places.kept(), 0);
}

#[tokio::test(start_paused = true)]
async fn while_a_task_of_the_same_owner_waits_a_try_is_busy_and_a_timeout_is_kept_to() {
    let clock = Arc::new(TestClock::new());
    let keeper = MemoryService::new(clock.clone()).keeper();
    let mutex = keeper.mutex("door").unwrap();
    let held = mutex.lock().await.unwrap();
    let owner = OwnerKey::new();
    let mut waiting = Box::pin(owner.lock(&mutex));
    assert!(tokio::time::timeout(Duration::ZERO, &mut waiting).await.is_err());
    assert!(owner.lock_within(&mutex, Wait::No).await.unwrap().is_none());
    let (asked, start) = (owner.lock_within(&mutex, Wait::AtMost(TIMEOUT)), clock.now());
    assert!(asked.await.unwrap().is_none());
    assert_eq!(clock.now().saturating_duration_since(start), TIMEOUT);
    drop(held);
    drop(waiting.await.unwrap());
    assert_eq!(owner.places.kept(), 0);
}

#[tokio::test(start_paused = true)]
async fn inside_a_hold_that_was_lost_nothing_is_waited_for_until_its_last_guard_is_gone() {
    let keeper = service().keeper();
    let (mutex, rw_lock) = (keeper.mutex("door").unwrap(), keeper.rw_lock("book").unwrap());
    let owner = OwnerKey::new();
    let (door, write) = (owner.lock(&mutex).await.unwrap(), owner.write(&rw_lock).await.unwrap());
    let inner = owner.lock(&mutex).await.unwrap();
    keeper.testing().unwrap().expire_session();
    let lost = ErrorKind::Lost(LossReason::Expired);
    for error in [
        owner.lock(&mutex).await.unwrap_err(),
        owner.lock_within(&mutex, Wait::No).await.unwrap_err(),
        owner.lock_within(&mutex, Wait::AtMost(TIMEOUT)).await.unwrap_err(),
        owner.read(&rw_lock).await.unwrap_err(),
        owner.write(&rw_lock).await.unwrap_err(),
        // Also as the other kind of lock, which would keep it out if it were not lost.
        owner.read(&keeper.rw_lock("door").unwrap()).await.unwrap_err(),
        owner.lock_within(&keeper.mutex("book").unwrap(), Wait::No).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.advice()), (lost, Advice::Permanent), "{error}");
    }
    for guard in [inner, door] {
        let error = guard.release().await.unwrap_err();
        assert_eq!((error.kind(), error.advice()), (lost, Advice::AskAgain), "{error}");
    }
    drop(write);
    owner.lock(&mutex).await.unwrap().release().await.unwrap();
    owner.read(&rw_lock).await.unwrap().release().await.unwrap();
}

/// CURATOR-678: the release is under way while the connection is cut, and the owner asks again.
#[tokio::test(start_paused = true)]
async fn a_lock_whose_release_has_not_arrived_yet_can_be_locked_again_by_its_owner() {
    let (keeper, mutex, owner) = door();
    let guard = owner.lock(&mutex).await.unwrap();
    keeper.testing().unwrap().cut(SafeUntil::ProcessEnd);
    // In jeopardy it is held still.
    drop(owner.lock(&mutex).await.unwrap());
    drop(guard.release());
    let again = tokio::spawn(async move { owner.lock(&mutex).await });
    yield_often().await;
    keeper.testing().unwrap().heal();
    let again = again.await.unwrap().unwrap();
    assert!(again.hold().is_held());
    assert_eq!(modes(&keeper, "door").await, [Mode::Mutex]);
}

/// A mutex is the exclusive side of the read/write lock of its name, so each would keep the other waiting forever.
#[tokio::test(start_paused = true)]
async fn an_owner_that_has_a_name_as_one_kind_of_lock_and_asks_for_the_other_is_refused_at_once() {
    let keeper = service().keeper();
    let (mutex, rw_lock) = (keeper.mutex("book").unwrap(), keeper.rw_lock("book").unwrap());
    let owner = OwnerKey::new();
    let refused = (ErrorKind::WouldDeadlock, Advice::Permanent);
    let held = owner.lock(&mutex).await.unwrap();
    for error in [
        owner.read(&rw_lock).await.unwrap_err(),
        owner.write(&rw_lock).await.unwrap_err(),
        owner.read_within(&rw_lock, Wait::No).await.unwrap_err(),
        owner.write_within(&rw_lock, Wait::AtMost(TIMEOUT)).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.advice()), refused, "{error}");
    }
    drop(held);
    let nested = mutex.run(|_| rw_lock.run_write(async |_| ())).await.unwrap();
    assert_eq!(nested.unwrap_err().kind(), ErrorKind::WouldDeadlock);
    let read = owner.read(&rw_lock).await.unwrap();
    let write_elsewhere = keeper.rw_lock("other").unwrap();
    let write = owner.write(&write_elsewhere).await.unwrap();
    for name in ["book", "other"] {
        let error = owner.lock(&keeper.mutex(name).unwrap()).await.unwrap_err();
        assert_eq!((error.kind(), error.advice()), refused, "{error}");
    }
    drop((read, write));
    assert_eq!(modes(&keeper, "book").await, []);
    assert_eq!(owner.places.kept(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_read_inside_a_write_is_tried_again_while_the_way_is_cut() {
    let (keeper, rw_lock, owner) = book();
    let write = owner.write(&rw_lock).await.unwrap();
    keeper.testing().unwrap().cut(SafeUntil::ProcessEnd);
    let error = owner.read_within(&rw_lock, Wait::No).await.unwrap_err();
    assert_eq!(error.advice(), Advice::Transient);
    assert!(owner.read_within(&rw_lock, Wait::AtMost(TIMEOUT)).await.is_err());
    let reading = tokio::spawn({
        let (owner, rw_lock) = (owner.clone(), rw_lock.clone());
        async move { owner.read(&rw_lock).await }
    });
    tokio::time::sleep(TIMEOUT).await;
    keeper.testing().unwrap().heal();
    let read = reading.await.unwrap().unwrap();
    assert_eq!(modes(&keeper, "book").await, [Mode::Write, Mode::Read]);
    drop((write, read));
}

#[tokio::test(start_paused = true)]
async fn a_keeper_and_its_session_end_while_an_owner_remembers_them() {
    let service = service();
    let keeper = service.keeper();
    let owner = OwnerKey::new();
    let mutex = keeper.mutex("door").unwrap();
    let guard = owner.lock(&mutex).await.unwrap();
    drop((keeper, mutex));
    assert_eq!(modes(&service.keeper(), "door").await, [Mode::Mutex]);
    drop(guard);
    assert_eq!(modes(&service.keeper(), "door").await, []);
    assert_eq!(owner.places.kept(), 0);
}
