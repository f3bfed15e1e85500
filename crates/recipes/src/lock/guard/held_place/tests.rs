//! Limits of holds, on the memory backend under paused time.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{ErrorKind, Liveness, LossReason, SafeUntil};

use crate::Keeper;
use crate::keeper::memory::MemoryService;
use crate::tests::{AT_ONCE, at_once};

const LIMIT: Duration = Duration::from_secs(10);

fn world() -> (TestClock, Keeper) {
    let clock = TestClock::new();
    (clock.clone(), MemoryService::new(Arc::new(clock)).keeper())
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_at_its_limit_and_the_next_is_granted_though_no_caller_looks() {
    let (clock, keeper) = world();
    let mutex = keeper.mutex("m").unwrap().max_hold(LIMIT);
    let granted_at = clock.now();
    let forgotten = mutex.lock().await.unwrap();
    let next = mutex.lock().await.unwrap();
    assert_eq!(clock.now().saturating_duration_since(granted_at), LIMIT);
    assert_eq!(forgotten.hold().liveness(), Liveness::Lost(LossReason::MaxHold));
    assert_eq!(at_once("the loss", forgotten.hold().lost()).await, LossReason::MaxHold);
    let error = forgotten.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(LossReason::MaxHold));
    assert!(next.hold().is_held() && next.fencing_token().as_u64() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_limited_hold_may_be_believed_until_its_limit_at_most() {
    let (clock, keeper) = world();
    let guard = keeper.mutex("m").unwrap().max_hold(LIMIT).lock().await.unwrap();
    let safe_until = SafeUntil::At(clock.now().saturating_add(LIMIT));
    assert_eq!(guard.hold().liveness(), Liveness::Held { safe_until });
    assert_eq!(guard.hold().safe_for(), Some(LIMIT));
    let sooner = SafeUntil::At(clock.now().saturating_add(LIMIT / 2));
    keeper.testing().unwrap().cut(sooner);
    assert_eq!(guard.hold().liveness(), Liveness::Jeopardy { safe_until: sooner });
    assert_eq!(guard.hold().lost().await, LossReason::Lapsed);
    tokio::time::advance(LIMIT).await;
    assert_eq!(guard.hold().liveness(), Liveness::Lost(LossReason::Lapsed), "the first reason stays");
}

#[tokio::test(start_paused = true)]
async fn work_under_a_lock_is_dropped_at_the_limit() {
    let (_, keeper) = world();
    let mutex = keeper.mutex("m").unwrap().max_hold(LIMIT);
    let error = mutex.run(|_| std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(LossReason::MaxHold));
    assert_eq!(mutex.run(|_| async { 7 }).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_released_in_time_knows_no_limit_and_leaves_no_task_behind() {
    let (_, keeper) = world();
    let mutex = keeper.mutex("m").unwrap().max_hold(LIMIT);
    let metrics = tokio::runtime::Handle::current().metrics();
    keeper.notice().await.unwrap();
    let of_the_session = metrics.num_alive_tasks();
    let guard = mutex.lock().await.unwrap();
    let hold = guard.hold().clone();
    guard.release().await.unwrap();
    tokio::time::sleep(AT_ONCE).await;
    assert_eq!(metrics.num_alive_tasks(), of_the_session);
    tokio::time::advance(2 * LIMIT).await;
    assert_eq!(hold.lost().await, LossReason::Released);
}

#[tokio::test(start_paused = true)]
async fn the_place_is_kept_for_the_least_time_though_the_hold_is_over() {
    for how in ["released", "not awaited", "dropped", "panicked"] {
        let (clock, keeper) = world();
        let mutex = keeper.mutex("m").unwrap().min_hold(LIMIT);
        let granted_at = clock.now();
        let guard = mutex.lock().await.unwrap();
        let hold = guard.hold().clone();
        let release = match how {
            "released" => Some(guard.release()),
            "not awaited" => {
                drop(guard.release());
                None
            }
            "dropped" => {
                drop(guard);
                None
            }
            _ => {
                let panicked = tokio::spawn(async move {
                    let _guard = guard;
                    panic!("the work has a fault");
                });
                assert!(panicked.await.unwrap_err().is_panic());
                None
            }
        };
        assert_eq!(hold.liveness(), Liveness::Lost(LossReason::Released), "{how}");
        assert!(mutex.try_lock().await.unwrap().is_none());
        drop(mutex.lock().await.unwrap());
        assert_eq!(clock.now().saturating_duration_since(granted_at), LIMIT, "{how}");
        if let Some(release) = release {
            release.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_least_time_a_release_waits_for_nothing() {
    let (_, keeper) = world();
    let guard = keeper.mutex("m").unwrap().min_hold(LIMIT).lock().await.unwrap();
    tokio::time::advance(LIMIT).await;
    at_once("the release", guard.release()).await.unwrap();
    assert!(keeper.contenders("m").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_two_limits_that_contradict_each_other_the_shorter_one_wins() {
    let (clock, keeper) = world();
    let mutex = keeper.mutex("m").unwrap().min_hold(3 * LIMIT).max_hold(LIMIT);
    let granted_at = clock.now();
    drop(mutex.lock().await.unwrap());
    drop(mutex.lock().await.unwrap());
    assert_eq!(clock.now().saturating_duration_since(granted_at), LIMIT);
}

#[tokio::test(start_paused = true)]
async fn readers_writers_and_permits_have_limits_too() {
    let (clock, keeper) = world();
    let lock = keeper.rw_lock("r").unwrap().max_hold(LIMIT);
    let write = lock.write().await.unwrap();
    let read = write.downgrade().await.unwrap();
    assert_eq!(read.hold().lost().await, LossReason::MaxHold);
    drop(lock.write().await.unwrap());
    let semaphore = keeper.semaphore("s", 2).unwrap().max_hold(LIMIT).min_hold(LIMIT);
    let granted_at = clock.now();
    let permits = semaphore.acquire_many(2).await.unwrap();
    drop(semaphore.acquire_many(2).await.unwrap());
    assert_eq!(clock.now().saturating_duration_since(granted_at), LIMIT);
    assert!(permits.iter().all(|permit| permit.hold().liveness() == Liveness::Lost(LossReason::MaxHold)));
}

/// Only a live runtime can keep a place; its end gives the place back at once and blocks no thread.
#[test]
fn the_end_of_the_runtime_ends_the_least_time() {
    let keeper = Keeper::memory();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let first = runtime();
    let guard = first.block_on(keeper.mutex("m").unwrap().min_hold(LIMIT).lock()).unwrap();
    drop(guard);
    drop(first);
    assert!(runtime().block_on(keeper.mutex("m").unwrap().try_lock()).unwrap().is_some());
}

#[test]
fn a_guard_with_a_least_time_is_dropped_on_a_thread_without_a_runtime_under_any_clock() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (guard, keeper) = runtime.block_on(async {
        let (_, keeper) = world();
        let mutex = keeper.mutex("m").unwrap().min_hold(LIMIT);
        (mutex.lock().await.unwrap(), keeper)
    });
    std::thread::spawn(move || drop(guard)).join().expect("nothing panics");
    let mutex = keeper.mutex("m").unwrap();
    runtime.block_on(async {
        assert!(mutex.try_lock().await.unwrap().is_none());
        assert!(mutex.lock_timeout(LIMIT + AT_ONCE).await.unwrap().is_some());
    });
}
