//! Locking again what an owner already has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::{Advice, ErrorKind, LossReason, Modes, Wait};
use lockkeeper_recipes::{Guard, Mutex, MutexGuard, OwnerKey, Reentrant};
use tokio::task::{JoinSet, yield_now};

use crate::asking::{Ask, LOCK};
use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{IN_VAIN, LONG, Party, all_done, enter_all, give_back, granted, in_vain, parties, release};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("an owner locks again what it has, and the lock is free with the last of its guards", three_deep)
            .given_back()
            .uses(Modes::MUTEX),
        Case::new("another owner waits for all guards of the one that has the lock", others_wait)
            .strict()
            .uses(Modes::MUTEX),
        Case::new("locking again as the same owner costs the service nothing", costs_nothing).uses(Modes::MUTEX),
        Case::new("owners that lock twice exclude one another", owners_exclude).uses(Modes::MUTEX),
        Case::new("an owner that writes may read, and its share keeps queued writers out", reads_inside_a_write)
            .uses(Modes::READ_WRITE),
        Case::new("an owner that reads and asks to write is refused at once", would_deadlock).uses(Modes::READ_WRITE),
        Case::new("an owner that reads may read again while a writer waits", reads_again).uses(Modes::READ_WRITE),
        Case::new("nested run() closures count on one hold", nested_runs)
            .given_back()
            .uses(Modes::MUTEX.with(Modes::READ_WRITE)),
        Case::new("an owner whose hold was lost is told so, and locks anew once its guards are gone", lost)
            .uses(Modes::MUTEX)
            .needs(&[FaultKind::ExpireSession]),
    ]
}

/// Gives back one of several guards on one hold.
async fn count_down<Kind>(held: Reentrant<Guard<Kind>>) {
    soon("the release", held.release()).await.expect("the lock was still held");
}

async fn locked(owner: &OwnerKey, mutex: &Mutex) -> Reentrant<MutexGuard> {
    soon("the grant", owner.lock(mutex)).await.expect("it is granted")
}

async fn three_deep(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let (owner, mutex) = (OwnerKey::new(), ann.mutex(LOCK));
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(locked(&owner, &mutex).await);
    }
    let token = guards[0].fencing_token();
    assert!(guards.iter().all(|guard| guard.fencing_token() == token && guard.hold().is_held()));
    // The outermost is not the last to go.
    guards.rotate_left(1);
    while let Some(guard) = guards.pop() {
        assert!(bob.try_lock(LOCK).await.is_none(), "{} guards are left", guards.len() + 1);
        assert_eq!(bob.contenders(LOCK).await, 1);
        count_down(guard).await;
    }
    release(bob.try_lock(LOCK).await.expect("the lock is free")).await;
}

async fn others_wait(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let (one, other, mutex) = (OwnerKey::new(), OwnerKey::new(), ann.mutex(LOCK));
    let outer = locked(&one, &mutex).await;
    let inner = locked(&one, &mutex).await;
    assert!(soon("the answer", other.lock_within(&mutex, Wait::No)).await.expect("busy is no error").is_none());
    let waiting = {
        let (other, mutex) = (other.clone(), mutex.clone());
        ann.queue_up_for(async move { other.lock(&mutex).await }).await
    };
    let stranger = ann.queue_up(LOCK).await;
    count_down(outer).await;
    yield_now().await;
    assert!(in_vain(async || other.lock_within(&mutex, Wait::AtMost(IN_VAIN)).await).await && !waiting.is_finished());
    count_down(inner).await;
    count_down(granted(waiting).await).await;
    release(granted(stranger).await).await;
}

async fn costs_nothing(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let (owner, mutex) = (OwnerKey::new(), ann.mutex(LOCK));
    let outer = locked(&owner, &mutex).await;
    for _ in 0..100 {
        let inner = soon("the grant", owner.lock_within(&mutex, Wait::No)).await.expect("it does not fail");
        count_down(inner.expect("it has it")).await;
    }
    assert_eq!((ann.tap.joins(), ann.contenders(LOCK).await), (1, 1));
    count_down(outer).await;
}

async fn owners_exclude(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 2).await;
    let counter = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for party in parties.iter().cycle().take(10) {
        // Each with its own owner key, on a mutex that others use too.
        let (owner, mutex, counter) = (OwnerKey::new(), party.mutex(LOCK), counter.clone());
        tasks.spawn(async move {
            for _ in 0..10 {
                let outer = owner.lock(&mutex).await.expect("it is granted");
                let read = counter.load(Ordering::Relaxed);
                let inner = owner.lock(&mutex).await.expect("it is granted");
                yield_now().await;
                count_down(outer).await;
                yield_now().await;
                counter.store(read + 1, Ordering::Relaxed);
                count_down(inner).await;
            }
        });
    }
    all_done(tasks).await;
    assert_eq!(counter.load(Ordering::Relaxed), 100);
}

async fn reads_inside_a_write(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let (owner, lock) = (OwnerKey::new(), ann.rw_lock(LOCK));
    let writing = soon("the grant", owner.write(&lock)).await.expect("it is granted");
    let next = bob.queue_up_as(Ask::Write).await;
    let behind = eve.queue_up_as(Ask::Read).await;
    let reading = soon("the share", owner.read(&lock)).await.expect("it is granted");
    assert_eq!(reading.fencing_token(), writing.fencing_token());
    assert!(eve.asks_in_vain(Ask::Read).await, "others do not share it");
    count_down(writing).await;
    assert!(bob.asks_in_vain(Ask::Write).await);
    assert!(!next.is_finished() && !behind.is_finished() && reading.hold().is_held());
    count_down(reading).await;
    give_back(granted(next).await).await;
    give_back(granted(behind).await).await;
}

async fn would_deadlock(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let (owner, lock) = (OwnerKey::new(), ann.rw_lock(LOCK));
    let reading = soon("the grant", owner.read(&lock)).await.expect("it is granted");
    let errors = [
        soon("the refusal", owner.write(&lock)).await.err(),
        soon("the refusal", owner.write_within(&lock, Wait::No)).await.err(),
        soon("the refusal", owner.write_within(&lock, Wait::AtMost(LONG))).await.err(),
    ];
    for error in errors {
        let error = error.expect("it would wait for itself");
        assert_eq!((error.kind(), error.advice()), (ErrorKind::WouldDeadlock, Advice::Permanent), "{error}");
    }
    assert!(reading.hold().is_held());
    ann.until_contenders(LOCK, 1).await;
    count_down(reading).await;
    count_down(soon("the grant", owner.write(&lock)).await.expect("it reads no more")).await;
}

async fn reads_again(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let (owner, lock) = (OwnerKey::new(), ann.rw_lock(LOCK));
    let first = soon("the grant", owner.read(&lock)).await.expect("it is granted");
    let writer = bob.queue_up_as(Ask::Write).await;
    let second = soon("the grant", owner.read(&lock)).await.expect("it has a share");
    count_down(first).await;
    assert!(!writer.is_finished() && second.hold().is_held());
    count_down(second).await;
    give_back(granted(writer).await).await;
}

async fn nested_runs(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let (mutex, lock) = (ann.mutex(LOCK), ann.rw_lock("book"));
    let work = mutex.run(|outer| {
        let (mutex, lock) = (&mutex, &lock);
        async move {
            let inner = mutex.run(|inner| async move { (inner.is_held(), inner.fencing_token()) }).await;
            let nested = inner.is_ok_and(|inner| inner == (true, outer.fencing_token()));
            let shared = lock.run_write(|_| lock.run_read(|share| async move { share.is_held() })).await;
            (nested, shared.expect("it is granted").expect("it is granted"), outer.is_held())
        }
    });
    assert_eq!(soon("the output", work).await.expect("the lock is kept"), (true, true, true));
    assert!(bob.try_lock(LOCK).await.is_some());
    bob.until_contenders("book", 0).await;
}

async fn lost(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let (owner, mutex) = (OwnerKey::new(), ann.mutex(LOCK));
    let held = locked(&owner, &mutex).await;
    ann.inflict(Fault::ExpireSession).await;
    assert_eq!(soon("the loss", held.hold().lost()).await, LossReason::Expired);
    let error = soon("the refusal", owner.lock(&mutex)).await.expect_err("what it has is lost");
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error:?}");
    drop(held);
    let anew = locked(&owner, &mutex).await;
    assert!(anew.hold().is_held());
    count_down(anew).await;
}
