//! Owners that lock again what they have; and several locks at once, all of them or none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::{Advice, ErrorKind, LossReason, Modes, Wait};
use lockkeeper_recipes::{Guard, Member, MultiGuard, MultiLock, Mutex, MutexGuard, OwnerKey, Reentrant};
use tokio::task::{JoinSet, yield_now};

use crate::ask::{Ask, LOCK};
use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{IN_VAIN, LONG, Party, all_done, enter_all, give_back, granted, in_vain, parties, release};
use crate::waiting::{assert_met, measured, soon};

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

/// How long the wait for all locks may take at first.
const TIMEOUT: Duration = Duration::from_millis(300);

/// How many waits there are at most until one has reached its last lock before the time was up, each with twice the
/// time of the one before: on a busy machine each join takes a while.
const WAITS_MAX: u32 = 8;

/// How many waits that reach the last lock are measured.
const ROUNDS: usize = 3;

/// How much later than a thread that only sleeps the one deadline may end the wait: far less than if each member had
/// its own.
const LATE_MAX: Duration = Duration::from_millis(150);

pub(super) fn multi_locks() -> Vec<Case> {
    let expiring = |case: Case| case.needs(&[FaultKind::ExpireSession]);
    vec![
        Case::new("a multi-lock has all its locks or none", all_or_none).given_back(),
        Case::new("a multi-lock waits for each of its locks, and others wait for it", waits_for_each).strict(),
        Case::new("one deadline covers all locks of a multi-lock, and nothing is left when it passes", one_deadline),
        Case::new("multi-locks that overlap, in any order, never wait for each other without end", overlapping),
        Case::new("when a later lock of a multi-lock fails, the earlier ones are given back", later_fails)
            .uses(Modes::SEMAPHORE),
        expiring(Case::new("a release that fails keeps none of a multi-lock's others", release_fails).given_back()),
        expiring(Case::new("a multi-lock whose session expires frees all its locks", holder_expires)),
        Case::new("a multi-lock of no locks, or of the same lock twice, is refused when it is made", bad_members)
            .uses(Modes::READ_WRITE),
        Case::new("a multi-lock shares what it only reads", shares).uses(Modes::READ_WRITE),
        Case::new("an owner locks again what it has of a multi-lock", again).given_back(),
    ]
}

fn multi(party: &Party, names: &[&str]) -> MultiLock {
    MultiLock::new(names.iter().map(|name| party.mutex(name))).expect("the locks differ")
}

async fn release_each(guard: MultiGuard) {
    soon("the release", guard.release()).await.expect("all were still held");
}

async fn all_or_none(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let names = ["cellar", "attic", "door"];
    let locks = multi(&ann, &names);
    let guard = soon("the grant", locks.lock()).await.expect("they are granted");
    assert!(guard.is_held() && guard.holds().count() == 3);
    for name in names {
        assert!(bob.try_lock(name).await.is_none(), "{name}");
    }
    assert!(soon("the answer", multi(&bob, &["garden", "door"]).try_lock()).await.expect("no error").is_none());
    assert_eq!(bob.contenders("garden").await, 0, "none of those that were free is kept");
    release_each(guard).await;
    for name in names {
        release(bob.try_lock(name).await.expect("it is free again")).await;
    }
}

async fn waits_for_each(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let names = ["attic", "cellar", "door"];
    for taken in names {
        let held = ann.lock(taken).await;
        let locks = multi(&bob, &names);
        let waiting = tokio::spawn(async move { locks.lock().await });
        ann.until_contenders(taken, 2).await;
        let behind = ann.queue_up("door").await;
        assert!(!waiting.is_finished());
        release(held).await;
        // It joins one queue after the other, so a contender that joined a later one before it is served first.
        if taken != "door" {
            release(granted(behind).await).await;
            release_each(granted(waiting).await).await;
        } else {
            release_each(granted(waiting).await).await;
            release(granted(behind).await).await;
        }
    }
}

async fn one_deadline(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let locks = multi(&bob, &["attic", "cellar", "door"]);
    let door = ann.lock("door").await;
    let mut timeouts = (0..WAITS_MAX).map(|number| TIMEOUT * 2_u32.pow(number));
    let mut timeout = timeouts.next().expect("there is one");
    let mut waits = Vec::new();
    while waits.len() < ROUNDS {
        let (attic, joined) = (ann.lock("attic").await, bob.journal.count(is_joined));
        let leaving = tokio::spawn(async move {
            tokio::time::sleep(timeout / 2).await;
            release(attic).await;
        });
        let (outcome, wait) = measured(fixture, timeout, locks.lock_timeout(timeout)).await;
        let waited_for_all = bob.journal.count(is_joined) == joined + 3;
        match outcome {
            Ok(granted) => assert!(granted.is_none(), "it was granted what another one holds"),
            Err(error) => assert!(!waited_for_all && error.is_transient(), "a timeout is no error: {error:?}"),
        }
        soon("the release", leaving).await.expect("the task does not panic");
        ann.until_contenders("attic", 0).await;
        ann.until_contenders("cellar", 0).await;
        ann.until_contenders("door", 1).await;
        if waited_for_all {
            assert!(wait.took >= timeout, "a timeout of {timeout:?}: {wait:?}");
            waits.push(wait);
        } else {
            timeout = timeouts.next().expect("one waits for its last lock before its time is up");
        }
    }
    assert_met(waits, LATE_MAX);
    release(door).await;
}

async fn overlapping(fixture: &dyn Fixture) {
    let mut tasks = JoinSet::new();
    for names in [["attic", "door"], ["door", "cellar"], ["cellar", "attic"], ["door", "attic"]] {
        let locks = multi(&Party::enter(fixture).await, &names);
        tasks.spawn(async move {
            for _ in 0..10 {
                let guard = locks.lock().await.expect("they are granted");
                yield_now().await;
                guard.release().await.expect("they were held");
            }
        });
    }
    all_done(tasks).await;
}

async fn later_fails(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    // Another kind of lock on every service, also where a mutex and an election look alike.
    let permit = soon("the permit", bob.semaphore("door", 1).acquire()).await.expect("it is granted");
    let locks = multi(&ann, &["door", "window", "attic"]);
    let errors = [
        soon("the refusal", locks.lock()).await.err(),
        soon("the refusal", locks.try_lock()).await.err(),
        soon("the refusal", locks.lock_timeout(LONG)).await.err(),
    ];
    for error in errors {
        let error = error.expect("one of them is of another kind");
        let said = (error.kind(), error.advice(), error.lock());
        assert_eq!(said, (ErrorKind::KindMismatch, Advice::Permanent, Some("door")), "{error}");
    }
    bob.until_contenders("attic", 0).await;
    bob.until_contenders("window", 0).await;
    assert!(permit.hold().is_held());
    release(permit).await;
    release_each(soon("the grant", locks.lock()).await.expect("they are granted")).await;
}

/// The locks are made by two keepers; the session of one of them ends.
async fn release_fails(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let locks = MultiLock::new([ann.mutex("attic"), bob.mutex("cellar"), ann.mutex("door")]);
    let guard = soon("the grant", locks.expect("they differ").lock()).await.expect("they are granted");
    bob.inflict(Fault::ExpireSession).await;
    let (name, reason) = soon("the loss", guard.lost()).await;
    assert_eq!((name.as_str(), reason), ("cellar", LossReason::Expired));
    assert!(!guard.is_held(), "without one of them it is not held");
    let error = soon("the release", guard.release()).await.expect_err("one of them was lost");
    assert_eq!((error.kind(), error.lock()), (ErrorKind::Lost(LossReason::Expired), Some("cellar")));
    for name in ["attic", "cellar", "door"] {
        release(eve.try_lock(name).await.expect("it was given back")).await;
    }
}

async fn holder_expires(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = soon("the grant", multi(&ann, &["attic", "door"]).lock()).await.expect("they are granted");
    let waiting = bob.queue_up("attic").await;
    ann.inflict(Fault::ExpireSession).await;
    let attic = granted(waiting).await;
    assert!(!guard.is_held());
    let door = bob.lock("door").await;
    drop(guard);
    assert!(attic.hold().is_held() && door.hold().is_held());
    release(attic).await;
    release(door).await;
}

async fn bad_members(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mut refusals = vec![
        MultiLock::new(Vec::<Mutex>::new()).err(),
        MultiLock::new([ann.mutex("door"), ann.mutex("attic"), ann.mutex("door")]).err(),
        MultiLock::new([Member::read(ann.rw_lock("book")), Member::write(ann.rw_lock("book"))]).err(),
        MultiLock::new([Member::from(ann.mutex("book")), Member::read(ann.rw_lock("book"))]).err(),
    ];
    // Only the service's name shows that two keepers are of one service.
    if ann.keeper.service() == bob.keeper.service() {
        refusals.push(MultiLock::new([ann.mutex("door"), bob.mutex("door")]).err());
    }
    for (number, error) in refusals.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("number {number} was not refused"));
        assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidRequest, Advice::Permanent), "{error}");
    }
    assert_eq!(ann.tap.joins() + bob.tap.joins(), 0);
}

async fn shares(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let reads_and_writes = |party: &Party, page: &str| {
        MultiLock::new([Member::read(party.rw_lock("book")), Member::write(party.rw_lock(page))]).expect("they differ")
    };
    let first = soon("the grant", reads_and_writes(&ann, "page 1").lock()).await.expect("they are granted");
    let second = soon("the answer", reads_and_writes(&bob, "page 2").try_lock()).await.expect("it does not fail");
    let third = soon("the answer", reads_and_writes(&bob, "page 1").try_lock()).await.expect("busy is no error");
    assert!(third.is_none());
    release_each(second.expect("the book is shared")).await;
    release_each(first).await;
}

async fn again(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let (owner, locks) = (OwnerKey::new(), multi(&ann, &["attic", "door"]));
    let outer = soon("the grant", owner.lock_all(&locks)).await.expect("they are granted");
    let inner = soon("the grant", owner.lock_all(&locks)).await.expect("it has them");
    release_each(outer).await;
    assert!(inner.is_held() && bob.try_lock("door").await.is_none());
    release_each(inner).await;
    release(bob.try_lock("door").await.expect("it is free")).await;
}
