//! Places that are kept while no task holds the lock, as callers see them, on the memory service.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, mpsc};
use std::thread;
use std::time::Duration;

use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Mode, QueueName, Revocation, Wait};
use tokio::runtime::Builder;

use crate::contend::local_queue::TurnBound;
use crate::contend::local_queue::tests::{SECOND, waiting};
use crate::keeper::memory::MemoryService;
use crate::tests::{at_once, service, yield_often};
use crate::{Event, Handoff, Keeper, KeeperBuilder, Observer, ReleaseReason, Spawner};

/// Has the places watched in the test's own runtime, under its paused time.
fn sticky_builder(service: &MemoryService) -> KeeperBuilder {
    let spawner = Spawner::new(|watch| drop(tokio::spawn(watch)));
    service.keeper_builder().handoff(Handoff::sticky()).spawner(spawner)
}

fn sticky(service: &MemoryService) -> Keeper {
    sticky_builder(service).build()
}

/// Notes why places were left.
#[derive(Debug, Default)]
struct Reasons(StdMutex<Vec<ReleaseReason>>);

impl Observer for Reasons {
    fn on_event(&self, event: &Event) {
        if let Event::Left { why, .. } = event {
            self.0.lock().unwrap().push(*why);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_no_other_wants_is_taken_again_without_a_request() {
    let service = service();
    let (keeper, onlooker) = (sticky(&service), service.keeper());
    let first = keeper.mutex("door").unwrap().lock().await.unwrap().fencing_token();
    let kept = onlooker.contenders("door").await.unwrap();
    assert!(kept.len() == 1 && kept[0].is_kept());
    keeper.testing().unwrap().pause();
    let again = at_once("a turn", keeper.mutex("door").unwrap().lock()).await.unwrap();
    assert_eq!((again.fencing_token().as_u64(), again.fencing_token().turn()), (first.as_u64(), 1));
    drop(again);
    let tried = at_once("a turn", keeper.mutex("door").unwrap().try_lock()).await.unwrap();
    assert_eq!(tried.expect("it is idle").fencing_token().turn(), 2);
    keeper.testing().unwrap().resume();
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_a_kept_place_has_one_turn_while_others_wait() {
    let service = service();
    let (keeper, rival) = (sticky(&service), service.keeper());
    let mutex = keeper.mutex("door").unwrap();
    drop(mutex.lock().await.unwrap());
    let guard = mutex.lock().await.unwrap();
    let next = waiting(&mutex).await;
    let rivals = waiting(&rival.mutex("door").unwrap()).await;
    drop(guard);
    let rivals = at_once("the lock", rivals).await.unwrap().unwrap();
    assert!(!next.is_finished());
    drop(rivals);
    assert_eq!(at_once("the lock", next).await.unwrap().unwrap().fencing_token().turn(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_wait_fails_once_at_an_idle_place_and_has_it_given_up() {
    let service = service();
    let (keeper, rival) = (sticky(&service), service.keeper());
    drop(keeper.mutex("door").unwrap().lock().await.unwrap());
    let mutex = rival.mutex("door").unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    yield_often().await;
    assert!(mutex.try_lock().await.unwrap().is_some());
}

/// Its holder watches nothing, as one that stands still, and gives nothing up.
#[tokio::test(start_paused = true)]
async fn what_a_call_without_a_wait_leaves_at_an_idle_place_stands_in_the_queue_for_a_tenth_of_a_second_at_most() {
    let service = service();
    let keeper = sticky_builder(&service).spawner(Spawner::new(drop)).build();
    let (rival, onlooker) = (service.keeper(), service.keeper());
    drop(keeper.mutex("door").unwrap().lock().await.unwrap());
    assert!(rival.mutex("door").unwrap().try_lock().await.unwrap().is_none());
    yield_often().await;
    let standing = async || onlooker.contenders("door").await.unwrap().len();
    assert_eq!(standing().await, 2, "the idle place, and what asks for it");
    tokio::time::sleep(Duration::from_millis(99)).await;
    assert_eq!(standing().await, 2);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(standing().await, 1, "nothing waits for the idle place any more");
}

/// Each join has a token, so a join that was not needed would leave a gap.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_wait_joins_no_queue_whose_holder_keeps_no_places() {
    let service = service();
    let (holder, rival) = (service.keeper().mutex("door").unwrap(), service.keeper().mutex("door").unwrap());
    let guard = holder.lock().await.unwrap();
    for _ in 0..3 {
        assert!(rival.try_lock().await.unwrap().is_none());
    }
    yield_often().await;
    let token = guard.fencing_token().as_u64();
    guard.release().await.unwrap();
    assert_eq!(rival.lock().await.unwrap().fencing_token().as_u64(), token + 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_place_is_kept_for_its_time_and_no_longer() {
    let service = service();
    let (reasons, onlooker) = (Arc::new(Reasons::default()), service.keeper());
    let keeper = sticky_builder(&service).observer(reasons.clone()).build();
    let mutex = keeper.mutex("door").unwrap();
    for _ in 0..5 {
        drop(mutex.lock().await.unwrap());
        tokio::time::sleep(SECOND * 9 / 10).await;
        assert_eq!(onlooker.contenders("door").await.unwrap().len(), 1);
    }
    tokio::time::sleep(SECOND / 5).await;
    assert!(onlooker.contenders("door").await.unwrap().is_empty());
    assert_eq!(*reasons.0.lock().unwrap(), [ReleaseReason::Idle]);
}

#[tokio::test(start_paused = true)]
async fn observers_are_told_why_a_place_is_left() {
    let service = service();
    let (reasons, other) = (Arc::new(Reasons::default()), service.keeper());
    let keeper = sticky_builder(&service).observer(reasons.clone()).build();
    let mutex = keeper.mutex("door").unwrap();
    drop(mutex.lock().await.unwrap());
    drop(other.mutex("door").unwrap().lock().await.unwrap());
    drop(mutex.lock().await.unwrap());
    // It is listened for requests after a while.
    tokio::time::sleep(SECOND / 2).await;
    at_once("the end", other.admin().revoke("door", Revocation::default(), Wait::Forever)).await.unwrap();
    let guard = mutex.lock().await.unwrap();
    assert!(guard.hold().standing().is_some());
    drop(guard);
    assert!(other.contenders("door").await.unwrap().is_empty(), "what was handed out outlasts the turn");
    let guard = mutex.lock().await.unwrap();
    let next = waiting(&mutex).await;
    let others = waiting(&other.mutex("door").unwrap()).await;
    drop(guard);
    drop(others.await.unwrap().unwrap());
    drop(next.await.unwrap().unwrap());
    let expected = [ReleaseReason::Queued, ReleaseReason::Asked, ReleaseReason::EndsPlace, ReleaseReason::Bound];
    assert_eq!(reasons.0.lock().unwrap()[..4], expected);
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_is_dropped_or_closed_gives_its_idle_places_back() {
    let service = service();
    let (onlooker, rival) = (service.keeper(), service.keeper().mutex("door").unwrap());
    for is_closed in [false, true] {
        let keeper = sticky(&service);
        drop(keeper.mutex("door").unwrap().lock().await.unwrap());
        if is_closed {
            keeper.close().await.unwrap();
        }
        drop(keeper);
        yield_often().await;
        // Nothing asks for it yet.
        assert!(onlooker.contenders("door").await.unwrap().is_empty(), "closed: {is_closed}");
        drop(at_once("the lock", rival.lock()).await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_turns_are_used_up_is_left_though_no_other_waits() {
    let keeper = sticky(&service());
    let mutex = keeper.mutex("door").unwrap();
    let first = mutex.lock().await.unwrap().fencing_token();
    let bound = TurnBound::of(Handoff::sticky()).unwrap();
    let local = keeper.local_queues.of(&keeper.shared, &QueueName::new("door").unwrap(), Mode::Mutex, bound);
    local.state.lock().set_turns(u32::MAX - 1);
    let last = mutex.lock().await.unwrap().fencing_token();
    assert_eq!((last.as_u64(), last.turn()), (first.as_u64(), u32::MAX - 1));
    let next = mutex.lock().await.unwrap().fencing_token();
    assert!(next > last && next.turn() == 0);
}

#[tokio::test(start_paused = true)]
async fn tasks_that_wait_within_the_process_are_counted() {
    let service = service();
    let (keeper, onlooker) = (sticky(&service), service.keeper());
    let mutex = keeper.mutex("door").unwrap();
    let guard = mutex.lock().await.unwrap();
    let line = [waiting(&mutex).await, waiting(&mutex).await];
    assert_eq!((keeper.local_waiters("door").unwrap(), keeper.local_waiters("gate").unwrap()), (2, 0));
    assert_eq!(onlooker.contenders("door").await.unwrap().len(), 1);
    drop(guard);
    for waiting in line {
        drop(waiting.await.unwrap().unwrap());
    }
    assert_eq!(keeper.local_waiters("door").unwrap(), 0);
    assert!(keeper.local_waiters("").is_err());
}

/// Longer than all that is awaited, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(30);

fn on_a_thread_for_itself(service: &MemoryService) -> Keeper {
    service.keeper_builder().handoff(Handoff::Sticky { idle_max: 600 * SECOND }).build()
}

#[test]
fn an_idle_place_is_given_up_while_the_holders_own_runtime_is_blocked() {
    let service = MemoryService::new(Arc::new(SystemClock));
    let keeper = on_a_thread_for_itself(&service);
    let (blocked, is_blocked) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let holder = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            drop(keeper.mutex("door").unwrap().lock().await.unwrap());
            blocked.send(()).unwrap();
            may_go_on.recv_timeout(PATIENCE).unwrap();
        });
    });
    is_blocked.recv_timeout(PATIENCE).unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let rival = service.keeper().mutex("door").unwrap();
    let granted = runtime.block_on(rival.lock_timeout(PATIENCE)).unwrap();
    assert!(granted.is_some(), "the place stands though no task uses it");
    go_on.send(()).unwrap();
    holder.join().unwrap();
}

#[test]
fn a_task_that_loops_on_the_only_thread_starves_no_other_client() {
    const GRANTS: usize = 500;
    let service = MemoryService::new(Arc::new(SystemClock));
    let keeper = on_a_thread_for_itself(&service);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mutex = keeper.mutex("door").unwrap();
        let ends_at = tokio::time::Instant::now() + PATIENCE;
        // It ends by itself: what it starves could not end it.
        let looping = tokio::spawn(async move {
            while tokio::time::Instant::now() < ends_at {
                drop(mutex.lock().await.unwrap());
            }
        });
        let rival = service.keeper().mutex("door").unwrap();
        for _ in 0..GRANTS {
            drop(rival.lock().await.unwrap());
        }
        assert!(!looping.is_finished(), "the other client is granted the lock as often");
        looping.abort();
    });
}

#[tokio::test]
async fn a_task_that_takes_turn_after_turn_gives_other_tasks_of_its_thread_theirs() {
    const TURNS: usize = 10_000;
    let service = MemoryService::new(Arc::new(SystemClock));
    let mutex = on_a_thread_for_itself(&service).mutex("door").unwrap();
    let theirs = Arc::new(AtomicUsize::new(0));
    let counted = theirs.clone();
    let others = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    drop(mutex.lock().await.unwrap());
    let before = theirs.load(Ordering::Relaxed);
    for _ in 0..TURNS {
        drop(mutex.lock().await.unwrap());
    }
    let theirs = theirs.load(Ordering::Relaxed) - before;
    assert!(theirs >= TURNS / 1_000, "they had {theirs} while the lock was taken {TURNS} times");
    others.abort();
}

#[tokio::test(start_paused = true)]
async fn a_place_keeps_no_keeper_alive() {
    for handoff in [crate::contend::local_queue::tests::turns(64), Handoff::sticky()] {
        let service = service();
        let observer = Arc::new(Reasons::default());
        let keeper = sticky_builder(&service).handoff(handoff).observer(observer.clone()).build();
        let mutex = keeper.mutex("door").unwrap();
        drop(mutex.lock().await.unwrap());
        drop(mutex.lock().await.unwrap());
        drop((keeper, mutex));
        yield_often().await;
        assert_eq!(Arc::strong_count(&observer), 1, "{handoff:?}: the keeper that told it is gone");
    }
}
