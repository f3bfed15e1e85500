//! Tests of a keeper's own contenders, and how it is drained, on the memory backend.

use std::pin::pin;
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{ErrorKind, Mode, SafeUntil, Wait};

use crate::event::{Event, Observer};
use crate::keeper::memory::MemoryService;
use crate::tests::yield_often;
use crate::{Keeper, LeaderSelector, Member, MultiLock, Mutex, OwnerKey, Requeue};

const DEADLINE: Duration = Duration::from_secs(60);

fn service() -> (MemoryService, Arc<TestClock>) {
    let clock = Arc::new(TestClock::new());
    (MemoryService::new(clock.clone()), clock)
}

/// The names and modes of what is listed, and whether each is held.
fn listed(keeper: &Keeper) -> Vec<(String, Mode, bool)> {
    keeper.holds().iter().map(|own| (own.lock.to_string(), own.mode, own.is_held())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_keeper_lists_what_it_holds_and_what_it_waits_for_and_nothing_else() {
    let (service, _) = service();
    let (ann, bob) = (service.keeper(), service.keeper());
    let other = bob.mutex("busy").unwrap().lock().await.unwrap();
    assert_eq!(listed(&ann), []);
    let owner = OwnerKey::new();
    let door = owner.lock(&ann.mutex("door").unwrap()).await.unwrap();
    let again = owner.lock(&ann.mutex("door").unwrap()).await.unwrap();
    let permits = ann.semaphore("pool", 3).unwrap().acquire_many(2).await.unwrap();
    let lead = ann.election("lead").unwrap().campaign().await.unwrap();
    let both = MultiLock::new([Member::read(ann.rw_lock("m1").unwrap()), ann.mutex("m2").unwrap().into()]).unwrap();
    let both = both.lock().await.unwrap();
    let waiting = tokio::spawn(ann.mutex("busy").unwrap().lock_owned());
    yield_often().await;
    let in_line = ann.rw_lock("busy").unwrap().queue_up_to_read().await.unwrap();
    let held = |name: &str, mode| (name.to_owned(), mode, true);
    let waits = |name: &str, mode| (name.to_owned(), mode, false);
    let expected = [
        held("door", Mode::Mutex),
        held("pool", Mode::Permit),
        held("pool", Mode::Permit),
        held("lead", Mode::Candidate),
        held("m1", Mode::Read),
        held("m2", Mode::Mutex),
        waits("busy", Mode::Mutex),
        waits("busy", Mode::Read),
    ];
    assert_eq!(listed(&ann), expected);
    assert_eq!(listed(&bob), [held("busy", Mode::Mutex)]);
    waiting.abort();
    let _ = waiting.await;
    drop((in_line, again, lead));
    both.release().await.unwrap();
    assert_eq!(listed(&ann), [held("door", Mode::Mutex), held("pool", Mode::Permit), held("pool", Mode::Permit)]);
    ann.testing().unwrap().expire_session();
    assert_eq!(listed(&ann), [], "what was lost is not held");
    drop((door, permits, other));
    assert_eq!(listed(&bob), []);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_leaked_keeps_its_lock_and_shows_its_owner_until_its_keeper_is_closed() {
    let (service, _) = service();
    let (ann, bob) = (service.keeper(), service.keeper());
    let guard = ann.mutex("door").unwrap().lock().await.unwrap();
    let token = guard.fencing_token();
    std::mem::forget(guard);
    let waiting = tokio::spawn(bob.mutex("door").unwrap().lock_owned());
    tokio::time::sleep(10 * DEADLINE).await;
    assert_eq!(listed(&ann), [("door".to_owned(), Mode::Mutex, true)]);
    let shown = bob.contenders("door").await.unwrap();
    assert_eq!((shown.len(), shown[0].token), (2, Some(token)));
    assert_eq!(shown[0].owner.as_ref().map(|owner| owner.pid), Some(std::process::id()));
    assert!(!waiting.is_finished());
    ann.close().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().fencing_token() > token);
}

#[tokio::test(start_paused = true)]
async fn a_mutex_knows_whether_its_keeper_holds_it() {
    let (service, _) = service();
    let (ann, bob) = (service.keeper(), service.keeper());
    let mutex = ann.mutex("door").unwrap();
    let is_held = || [mutex.is_held_here(), ann.clone().mutex("door").unwrap().is_held_here()];
    let elsewhere = bob.mutex("door").unwrap().lock().await.unwrap();
    assert_eq!(is_held(), [false; 2], "another keeper holds it");
    drop(elsewhere);
    let write = ann.rw_lock("door").unwrap().write().await.unwrap();
    assert_eq!(is_held(), [false; 2], "it is held, but not as a mutex");
    drop(write);
    let guard = mutex.lock().await.unwrap();
    assert_eq!(is_held(), [true; 2]);
    ann.testing().unwrap().expire_session();
    assert_eq!(is_held(), [false; 2]);
    drop(guard);
    let again = mutex.lock().await.unwrap();
    assert_eq!(is_held(), [true; 2]);
    again.release().await.unwrap();
    assert_eq!(is_held(), [false; 2]);
}

/// Asks for the list of its keeper at every event.
#[derive(Debug, Default)]
struct Asking(OnceLock<Keeper>);

impl Observer for Asking {
    fn on_event(&self, _: &Event) {
        self.0.get().map(Keeper::holds);
    }
}

#[test]
fn an_observer_may_ask_what_is_held_when_it_is_told_of_a_loss() {
    let (tell, told) = mpsc::channel();
    // A deadlock must not take the test's own thread with it.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let asking = Arc::new(Asking::default());
            let keeper = service().0.keeper_builder().observer(asking.clone()).build();
            asking.0.set(keeper.clone()).unwrap();
            let mutex = keeper.mutex("door").unwrap();
            for look in [
                |mutex: &Mutex, _: &Keeper| mutex.is_held_here(),
                |_: &Mutex, keeper: &Keeper| !keeper.holds().is_empty(),
            ] {
                let _guard = mutex.lock().await.unwrap();
                keeper.testing().unwrap().expire_session();
                // This is what notices the loss.
                assert!(!look(&mutex, &keeper));
            }
        });
        tell.send(()).unwrap();
    });
    told.recv_timeout(DEADLINE).expect("the looks end");
}

#[tokio::test(start_paused = true)]
async fn a_drained_keeper_grants_nothing_more_and_waits_until_all_is_given_back() {
    let (service, clock) = service();
    let (ann, bob) = (service.keeper(), service.keeper());
    let busy = bob.mutex("busy").unwrap().lock().await.unwrap();
    let (door, permit) =
        (ann.mutex("door").unwrap().lock().await.unwrap(), ann.semaphore("pool", 2).unwrap().acquire().await.unwrap());
    let write = ann.rw_lock("book").unwrap().write().await.unwrap();
    let waiting = tokio::spawn(ann.mutex("busy").unwrap().lock_owned());
    let timed = tokio::spawn({
        let election = ann.election("lead").unwrap();
        let lead = bob.election("lead").unwrap().campaign().await.unwrap();
        async move { (election.campaign_within(Wait::AtMost(10 * DEADLINE)).await, lead) }
    });
    yield_often().await;
    let draining = ann.drain(DEADLINE);
    // It takes effect before it is polled.
    for error in [
        ann.mutex("free").unwrap().lock().await.unwrap_err(),
        ann.mutex("free").unwrap().try_lock().await.unwrap_err(),
        ann.mutex("free").unwrap().lock_timeout(DEADLINE).await.unwrap_err(),
        ann.semaphore("pool", 2).unwrap().try_acquire().await.unwrap_err(),
        ann.clone().mutex("free").unwrap().run(async |_| ()).await.unwrap_err(),
        waiting.await.unwrap().unwrap_err(),
        timed.await.unwrap().0.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
    let draining = tokio::spawn(draining);
    let start = clock.now();
    drop(busy);
    assert_eq!(bob.contenders("busy").await.unwrap().len(), 0, "no waiter is left");
    yield_often().await;
    assert!(!draining.is_finished() && door.hold().is_held() && permit.hold().is_held());
    let read = write.downgrade().await.expect("what is held works as before");
    drop((door, permit));
    tokio::time::sleep(DEADLINE / 4).await;
    assert!(!draining.is_finished() && read.hold().is_held());
    read.release().await.unwrap();
    assert!(draining.await.unwrap().is_empty());
    assert_eq!(clock.now().saturating_duration_since(start), DEADLINE / 4);
    ann.close().await.unwrap();
}

/// Begins to drain its keeper when it is told of a grant, and notes whether that was done at once.
#[derive(Debug, Default)]
struct Draining {
    keeper: OnceLock<Keeper>,
    was_done: OnceLock<bool>,
}

impl Observer for Draining {
    fn on_event(&self, event: &Event) {
        if let (Event::Granted { .. }, Some(keeper)) = (event, self.keeper.get()) {
            let mut drain = pin!(keeper.drain(DEADLINE));
            let done = drain.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
            let _ = self.was_done.set(done);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_misses_no_grant_that_is_on_its_way_to_its_caller() {
    for in_line in [false, true] {
        let (service, _) = service();
        let observer = Arc::new(Draining::default());
        let keeper = service.keeper_builder().observer(observer.clone()).build();
        observer.keeper.set(keeper.clone()).unwrap();
        let mutex = keeper.mutex("door").unwrap();
        let guard = match in_line {
            true => mutex.queue_up().await.unwrap().granted().await.unwrap(),
            false => mutex.lock().await.unwrap(),
        };
        assert_eq!(observer.was_done.get(), Some(&false), "drained before the grant was given back");
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_whose_time_is_up_returns_what_is_still_held_and_takes_nothing_away() {
    let (service, clock) = service();
    let keeper = service.keeper();
    let door = keeper.mutex("door").unwrap().lock().await.unwrap();
    let owner = OwnerKey::new();
    let reading = owner.read(&keeper.rw_lock("book").unwrap()).await.unwrap();
    let again = owner.read(&keeper.rw_lock("book").unwrap()).await.unwrap();
    let permit = keeper.semaphore("pool", 1).unwrap().acquire().await.unwrap();
    let start = clock.now();
    let draining = tokio::spawn(keeper.drain(DEADLINE));
    yield_often().await;
    drop((permit, reading));
    let left = draining.await.unwrap();
    assert_eq!(clock.now().saturating_duration_since(start), DEADLINE);
    let names: Vec<_> = left.iter().map(|own| (own.lock.as_str(), own.mode, own.is_held())).collect();
    assert_eq!(names, [("door", Mode::Mutex, true), ("book", Mode::Read, true)]);
    assert!(owner.read(&keeper.rw_lock("book").unwrap()).await.is_ok(), "an owner counts on what it has");
    drop(again);
    door.release().await.unwrap();
    assert!(keeper.drain(DEADLINE).await.is_empty());
    assert_eq!(clock.now().saturating_duration_since(start), DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_neither_for_what_is_lost_nor_for_a_place_in_line_that_no_call_waits_in() {
    let (service, clock) = service();
    let (ann, bob) = (service.keeper(), service.keeper());
    let lost = ann.mutex("door").unwrap().lock().await.unwrap();
    let limited = ann.mutex("hall").unwrap().max_hold(DEADLINE / 4).lock().await.unwrap();
    let busy = bob.mutex("busy").unwrap().lock().await.unwrap();
    let mut in_line = ann.mutex("busy").unwrap().queue_up().await.unwrap();
    let start = clock.now();
    ann.testing().unwrap().cut(SafeUntil::At(start.saturating_add(DEADLINE / 2)));
    assert!(ann.drain(DEADLINE).await.is_empty());
    assert_eq!(clock.now().saturating_duration_since(start), DEADLINE / 2, "as long as it may be believed");
    assert_eq!(in_line.granted_within(Wait::AtMost(DEADLINE)).await.unwrap_err().kind(), ErrorKind::Closed);
    drop((lost, limited, busy, in_line));
    assert!(ann.holds().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_selector_of_a_drained_keeper_ends_with_its_work_and_stands_for_no_other_lead() {
    let (service, clock) = service();
    let keeper = service.keeper();
    let election = keeper.election("lead").unwrap();
    let selector = LeaderSelector::start(&election, Requeue::Always, |_| async {
        tokio::time::sleep(DEADLINE / 2).await;
        Ok(())
    });
    yield_often().await;
    assert!(selector.has_leadership());
    let start = clock.now();
    assert!(keeper.drain(DEADLINE).await.is_empty());
    assert_eq!(clock.now().saturating_duration_since(start), DEADLINE / 2);
    assert_eq!(selector.over().await.expect("it failed").kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn what_a_drained_keeper_holds_can_be_used_to_its_end() {
    let (service, _) = service();
    let keeper = service.keeper();
    let barrier = keeper.double_barrier("phase", 2).unwrap();
    let (ann, bob) = tokio::try_join!(barrier.enter(), barrier.enter()).unwrap();
    let owner = OwnerKey::new();
    let book = keeper.rw_lock("book").unwrap();
    let write = owner.write(&book).await.unwrap();
    let count = keeper.shared_counter("count").unwrap();
    count.set(1).await.unwrap();
    let draining = tokio::spawn(keeper.drain(DEADLINE));
    yield_often().await;
    tokio::try_join!(ann.leave(), bob.leave()).expect("who is inside may leave");
    owner.read(&book).await.expect("a writer may read what it writes").release().await.unwrap();
    assert_eq!(count.get().await.expect("what is protected can be read").number(), 1);
    assert_eq!(barrier.enter().await.unwrap_err().kind(), ErrorKind::Closed);
    write.release().await.unwrap();
    assert!(draining.await.unwrap().is_empty());
    keeper.close().await.unwrap();
    assert_eq!(count.get().await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_try_that_the_service_does_not_answer_ends_when_the_keeper_is_drained() {
    let (service, clock) = service();
    let keeper = service.keeper();
    keeper.testing().unwrap().pause();
    let trying = tokio::spawn({
        let mutex = keeper.mutex("door").unwrap();
        async move { mutex.try_lock().await }
    });
    yield_often().await;
    let start = clock.now();
    assert!(keeper.drain(DEADLINE).await.is_empty());
    assert_eq!(clock.now(), start, "nothing is waited for");
    assert_eq!(trying.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_place_in_line_is_listed_also_after_a_wait_for_its_grant_was_given_up() {
    let (service, _) = service();
    let (ann, bob) = (service.keeper(), service.keeper());
    let busy = bob.mutex("busy").unwrap().lock().await.unwrap();
    let mut in_line = ann.mutex("busy").unwrap().queue_up().await.unwrap();
    let given_up = tokio::time::timeout(DEADLINE / 2, in_line.granted_within(Wait::AtMost(DEADLINE))).await;
    assert!(given_up.is_err() && bob.contenders("busy").await.unwrap().len() == 2);
    assert_eq!(listed(&ann), [("busy".to_owned(), Mode::Mutex, false)]);
    drop(busy);
    let guard = in_line.granted_within(Wait::AtMost(DEADLINE)).await.unwrap().unwrap();
    assert_eq!(listed(&ann), [("busy".to_owned(), Mode::Mutex, true)]);
    drop(guard);
    assert_eq!(listed(&ann), []);
}
