//! Keys of keepers on the memory backend: who is refused, what the error says, and who never is.

use std::time::Duration;

use lockkeeper_core::{Advice, Error, ErrorKind, Result, Wait};
use tokio::task::JoinHandle;

use crate::tests::{keepers, service, yield_often};
use crate::{Guard, Handoff, Keeper, Mutex, OwnerKey, Reentrant, RwLock};

const TIMEOUT: Duration = Duration::from_secs(2);

type Locking<Kind> = JoinHandle<Result<Reentrant<Guard<Kind>>>>;

fn locking(owner: &OwnerKey, mutex: &Mutex) -> Locking<crate::kind::Mutex> {
    let (owner, mutex) = (owner.clone(), mutex.clone());
    tokio::spawn(async move { owner.lock(&mutex).await })
}

fn writing(owner: &OwnerKey, rw_lock: &RwLock) -> Locking<crate::kind::Write> {
    let (owner, rw_lock) = (owner.clone(), rw_lock.clone());
    tokio::spawn(async move { owner.write(&rw_lock).await })
}

fn mutexes<const N: usize>(keeper: &Keeper) -> [Mutex; N] {
    std::array::from_fn(|at| keeper.mutex(&format!("door-{at}")).unwrap())
}

fn number(owner: &OwnerKey) -> String {
    owner.flow().unwrap().to_string()
}

/// Asserts that a call was refused with these words, in which `K0`, `K1` … stand for the keys.
fn assert_refused(error: &Error, owners: &[&OwnerKey], words: &str) {
    assert_eq!((error.kind(), error.advice()), (ErrorKind::WouldDeadlock, Advice::Permanent), "{error}");
    let mut expected = words.to_owned();
    for (at, owner) in owners.iter().enumerate() {
        expected = expected.replace(&format!("K{at}"), &format!("owner key {}", number(owner)));
    }
    assert_eq!(error.to_string(), expected);
}

fn nothing_is_noted(keeper: &Keeper) -> bool {
    keeper.shared.keys.lock().is_empty()
}

#[tokio::test(start_paused = true)]
async fn of_two_keys_over_two_mutexes_the_last_is_refused_with_the_chain_and_leaves_and_the_other_goes_on() {
    let keeper = service().keeper();
    let [door, gate] = mutexes(&keeper);
    let (ann, bob) = (OwnerKey::new(), OwnerKey::new());
    let (held, other) = (ann.lock(&door).await.unwrap(), bob.lock(&gate).await.unwrap());
    let waiting = locking(&ann, &gate);
    yield_often().await;
    let error = bob.lock(&door).await.unwrap_err();
    let words = "door-0: join: it would wait for itself: K1 waits for door-0, which K0 holds; \
                 K0 waits for door-1, which K1 holds";
    assert_refused(&error, &[&ann, &bob], words);
    // A wait that would end by itself is refused too, and one that waits for nothing is told that it is busy.
    let error = bob.lock_within(&door, Wait::AtMost(TIMEOUT)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldDeadlock);
    assert!(bob.lock_within(&door, Wait::No).await.unwrap().is_none());
    assert_eq!(keeper.contenders("door-0").await.unwrap().len(), 1, "it has left the queue");
    assert!(!waiting.is_finished());
    drop(other);
    let other = waiting.await.unwrap().unwrap();
    drop((held, other));
    assert!(nothing_is_noted(&keeper));
}

#[tokio::test(start_paused = true)]
async fn three_keys_in_a_circle_also_where_tasks_share_a_place() {
    for handoff in [Handoff::Strict, Handoff::local(), Handoff::sticky()] {
        let keeper = service().keeper();
        let doors: [Mutex; 3] = mutexes(&keeper).map(|door| door.handoff(handoff));
        let owners = [(); 3].map(|()| OwnerKey::new());
        let mut held = Vec::new();
        for (owner, door) in owners.iter().zip(&doors) {
            held.push(owner.lock(door).await.unwrap());
        }
        let first = locking(&owners[0], &doors[1]);
        yield_often().await;
        let second = locking(&owners[1], &doors[2]);
        yield_often().await;
        let error = owners[2].lock(&doors[0]).await.unwrap_err();
        let words = "door-0: join: it would wait for itself: K2 waits for door-0, which K0 holds; \
                     K0 waits for door-1, which K1 holds; K1 waits for door-2, which K2 holds";
        assert_refused(&error, &owners.each_ref(), words);
        drop(held.pop());
        drop(second.await.unwrap().unwrap());
        drop(held.pop());
        drop(first.await.unwrap().unwrap());
        drop(held);
        assert!(nothing_is_noted(&keeper));
    }
}

#[tokio::test(start_paused = true)]
async fn two_readers_that_write_each_others_book_and_a_reader_among_others() {
    let keeper = service().keeper();
    let (one, other) = (keeper.rw_lock("one").unwrap(), keeper.rw_lock("other").unwrap());
    let (ann, bob) = (OwnerKey::new(), OwnerKey::new());
    let _reads = (ann.read(&one).await.unwrap(), bob.read(&other).await.unwrap(), one.read().await.unwrap());
    let waiting = writing(&ann, &other);
    yield_often().await;
    let error = bob.write(&one).await.unwrap_err();
    let words =
        "one: join: it would wait for itself: K1 waits for one, which K0 holds; K0 waits for other, which K1 holds";
    assert_refused(&error, &[&ann, &bob], words);
    assert!(bob.read(&one).await.is_ok(), "a share is free");
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_permit_and_a_mutex_and_the_last_of_several_permits() {
    for permits in [1, 2] {
        let keeper = service().keeper();
        let (gate, [door]) = (keeper.semaphore("gate", permits).unwrap(), mutexes(&keeper));
        let (ann, bob) = (OwnerKey::new(), OwnerKey::new());
        let permit = ann.acquire(&gate).await.unwrap();
        // The other permit is of a task without a key.
        let plain = if permits == 2 { Some(gate.acquire().await.unwrap()) } else { None };
        let _door = bob.lock(&door).await.unwrap();
        let waiting = locking(&ann, &door);
        yield_often().await;
        let asking = bob.acquire_within(&gate, Wait::AtMost(TIMEOUT)).await;
        if plain.is_some() {
            assert!(asking.unwrap().is_none(), "that task may give it back");
        } else {
            let words = "gate: join: it would wait for itself: K1 waits for gate, of which K0 has a permit; \
                         K0 waits for door-0, which K1 holds";
            assert_refused(&asking.unwrap_err(), &[&ann, &bob], words);
        }
        assert_eq!(keeper.contenders("gate").await.unwrap().len(), permits as usize);
        drop(permit);
        drop(bob.acquire(&gate).await.unwrap());
        waiting.abort();
        assert!(waiting.await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_cancelled_or_whose_time_was_up_is_in_no_circle() {
    let keeper = service().keeper();
    let [door, gate] = mutexes(&keeper);
    let (ann, bob) = (OwnerKey::new(), OwnerKey::new());
    let _held = (ann.lock(&door).await.unwrap(), bob.lock(&gate).await.unwrap());
    let waiting = locking(&ann, &gate);
    yield_often().await;
    waiting.abort();
    assert!(waiting.await.is_err());
    assert!(bob.lock_within(&door, Wait::AtMost(TIMEOUT)).await.unwrap().is_none());
    assert!(ann.lock_within(&gate, Wait::AtMost(TIMEOUT)).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_with_its_session_keeps_nobody_waiting() {
    let keeper = service().keeper();
    let [door, gate] = mutexes(&keeper);
    let (ann, bob) = (OwnerKey::new(), OwnerKey::new());
    let lost = (ann.lock(&door).await.unwrap(), bob.lock(&gate).await.unwrap());
    keeper.testing().unwrap().expire_session();
    // Others hold them now; the guards are kept still.
    let others = (door.lock().await.unwrap(), gate.lock().await.unwrap());
    let waiting = locking(&ann, &gate);
    yield_often().await;
    assert!(bob.lock_within(&door, Wait::AtMost(TIMEOUT)).await.unwrap().is_none());
    drop(others);
    drop((waiting.await.unwrap().unwrap(), lost));
}

#[tokio::test(start_paused = true)]
async fn tasks_without_a_key_runs_and_the_keys_of_other_keepers_are_never_refused() {
    let service = service();
    let [keeper, elsewhere] = keepers(&service);
    let [door, gate] = mutexes(&keeper);
    let [far_door, _] = mutexes(&elsewhere);
    let (ann, bob) = (OwnerKey::new(), OwnerKey::new());
    // Another keeper's holder, as one of another process.
    let held = (ann.lock(&gate).await.unwrap(), bob.lock(&far_door).await.unwrap());
    let far_gate = elsewhere.mutex("door-1").unwrap();
    let waiting = locking(&bob, &far_gate);
    yield_often().await;
    assert!(ann.lock_within(&door, Wait::AtMost(TIMEOUT)).await.unwrap().is_none());
    waiting.abort();
    assert!(waiting.await.is_err());
    drop(held);
    // Tasks.
    let _held = (door.lock().await.unwrap(), ann.lock(&gate).await.unwrap());
    let waiting = locking(&ann, &door);
    yield_often().await;
    assert!(gate.lock_timeout(TIMEOUT).await.unwrap().is_none());
    waiting.abort();
    // Nested runs.
    let [near, far] = [0, 1].map(|at| keeper.mutex(&format!("run-{at}")).unwrap());
    let nested = |outer: Mutex, inner: Mutex| async move {
        let work = outer.run(|_| async move {
            yield_often().await;
            inner.run_timeout(TIMEOUT, |_| async {}).await
        });
        work.await.unwrap().unwrap()
    };
    let both = tokio::join!(nested(near.clone(), far.clone()), nested(far, near));
    assert!(both.0.is_none() || both.1.is_none(), "{both:?}");
}
