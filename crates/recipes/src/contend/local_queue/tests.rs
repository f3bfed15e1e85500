//! The line by itself; and hand-off as callers see it, on the memory service.

mod sticky;
mod worth;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::task::Waker;
use std::time::Duration;

use lockkeeper_core::{Advice, Caller, Error, ErrorKind, LossReason, Operation, Revocation, SafeUntil, Wait};
use tokio::task::{JoinHandle, JoinSet};

use crate::contend::local_queue::line::{TaskLine, TaskNews};
use crate::keeper::memory::MemoryService;
use crate::retry::RetryPolicy;
use crate::tests::service;
use crate::{Handoff, Keeper, Mutex, MutexGuard};

const SECOND: Duration = Duration::from_secs(1);

fn key(line: &mut TaskLine, serial: u64) -> bool {
    line.give_key(serial).is_some()
}

#[test]
fn tasks_are_given_the_key_in_the_order_in_which_they_came_and_those_that_left_are_passed_over() {
    let mut line = TaskLine::default();
    let slots: Vec<_> = (0..5).map(|_| line.push(Caller::default())).collect();
    for gone in [0, 2, 4] {
        assert!(matches!(line.remove(slots[gone]), TaskNews::Nothing));
    }
    let late = line.push(Caller::default());
    for (serial, expected) in (1..).zip([slots[1], slots[3], late]) {
        assert!(key(&mut line, serial));
        assert!(matches!(line.poll(expected, Waker::noop()), TaskNews::Key(told) if told == serial));
    }
    assert!(line.is_empty() && !key(&mut line, 4));
}

#[test]
fn a_slot_is_used_again_once_its_task_has_heard_or_left() {
    let mut line = TaskLine::default();
    for _ in 0..1_000 {
        let [first, second] = [line.push(Caller::default()), line.push(Caller::default())];
        assert!(key(&mut line, 7));
        assert!(matches!(line.remove(first), TaskNews::Key(7)), "it was given the key and has not heard");
        assert!(matches!(line.remove(second), TaskNews::Nothing));
    }
    assert_eq!(line.slots(), 2);
}

#[test]
fn a_failure_is_told_to_those_that_came_before_it() {
    let mut line = TaskLine::default();
    let early = line.push(Caller::default());
    let arrivals = line.arrivals();
    let late = line.push(Caller::default());
    let error = Error::transient(ErrorKind::ConnectionLost, Operation::Join, "gone");
    line.fail_before(arrivals, &error, &mut Vec::new());
    assert!(matches!(line.poll(early, Waker::noop()), TaskNews::Failed(_)));
    assert!(matches!(line.poll(late, Waker::noop()), TaskNews::Nothing));
}

fn turns(turns_max: u32) -> Handoff {
    Handoff::Local { turns_max: NonZeroU32::new(turns_max).unwrap(), time_max: 3_600 * SECOND }
}

fn local(service: &MemoryService) -> Keeper {
    service.keeper_builder().handoff(turns(64)).build()
}

/// Begins to wait, and waits until that is so.
async fn waiting(mutex: &Mutex) -> JoinHandle<lockkeeper_core::Result<MutexGuard>> {
    let waiting = tokio::spawn(mutex.clone().lock_owned());
    tokio::time::sleep(Duration::from_millis(1)).await;
    waiting
}

#[tokio::test(start_paused = true)]
async fn another_process_waits_for_so_many_turns_at_most() {
    let service = service();
    let (keeper, rival) = (service.keeper_builder().handoff(turns(3)).build(), service.keeper());
    let mutex = keeper.mutex("door").unwrap();
    let mut guard = mutex.lock().await.unwrap();
    let mut line = VecDeque::new();
    for _ in 0..8 {
        line.push_back(waiting(&mutex).await);
    }
    let rival = waiting(&rival.mutex("door").unwrap()).await;
    for turn in [1, 2] {
        drop(guard);
        guard = line.pop_front().unwrap().await.unwrap().unwrap();
        assert_eq!(guard.fencing_token().turn(), turn);
    }
    drop(guard);
    let rivals = rival.await.unwrap().unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(line.iter().all(|waiting| !waiting.is_finished()));
    drop(rivals);
    let next = line.pop_front().unwrap().await.unwrap().unwrap();
    assert_eq!(next.fencing_token().turn(), 0);
    drop(next);
    for waiting in line {
        drop(waiting.await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_wait_takes_a_vacant_lock_and_asks_nothing_while_this_process_has_it() {
    let service = service();
    let keeper = local(&service);
    let mutex = keeper.mutex("door").unwrap();
    let guard = mutex.try_lock().await.unwrap().unwrap();
    keeper.testing().unwrap().pause();
    assert!(mutex.try_lock().await.unwrap().is_none());
    keeper.testing().unwrap().resume();
    drop(guard);
    let rivals = service.keeper().mutex("door").unwrap().lock().await.unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    drop(rivals);
    assert!(mutex.try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_leaders_failure_reaches_all_that_waited_behind_it_in_the_time_of_one() {
    let service = service();
    let retry = RetryPolicy::until_elapsed(10 * SECOND, SECOND);
    let keeper = service.keeper_builder().handoff(turns(64)).retry(retry).build();
    keeper.testing().unwrap().cut(SafeUntil::ProcessEnd);
    let start = tokio::time::Instant::now();
    let mut calls = JoinSet::new();
    for _ in 0..33 {
        let mutex = keeper.mutex("door").unwrap();
        calls.spawn(async move { mutex.lock().await });
    }
    for failed in calls.join_all().await {
        assert_eq!(failed.unwrap_err().advice(), Advice::Transient);
    }
    assert!(start.elapsed() < 15 * SECOND, "{:?}", start.elapsed());
}

/// A policy bounds one outage, and neither the wait in the line nor that for a renewal before it.
#[tokio::test(start_paused = true)]
async fn a_task_that_has_waited_for_long_within_its_process_gets_all_retries_of_the_policy_when_it_leads() {
    let service = service();
    let retry = RetryPolicy::until_elapsed(10 * SECOND, SECOND);
    let keeper = service.keeper_builder().handoff(turns(64)).retry(retry).build();
    let mutex = keeper.mutex("door").unwrap();
    let testing = keeper.testing().unwrap();
    for is_renewal_awaited in [false, true] {
        let held = mutex.lock().await.unwrap();
        let next = waiting(&mutex).await;
        let held = if is_renewal_awaited {
            testing.cut(SafeUntil::ProcessEnd);
            drop(held);
            None
        } else {
            Some(held)
        };
        tokio::time::sleep(100 * SECOND).await;
        testing.cut(SafeUntil::ProcessEnd);
        testing.expire_session();
        tokio::time::sleep(5 * SECOND).await;
        assert!(!next.is_finished(), "renewal awaited: {is_renewal_awaited}");
        testing.heal();
        assert!(next.await.unwrap().unwrap().hold().is_held());
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_time_is_up_in_the_line_knows_whether_there_was_a_place() {
    let service = service();
    let keeper = local(&service);
    let mutex = keeper.mutex("door").unwrap();
    let guard = mutex.lock().await.unwrap();
    assert!(mutex.lock_timeout(SECOND).await.unwrap().is_none());
    drop(guard);
    keeper.testing().unwrap().pause();
    let leader = waiting(&mutex).await;
    let error = mutex.lock_timeout(SECOND).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    keeper.testing().unwrap().resume();
    drop(leader.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn closing_the_keeper_fails_its_line() {
    let keeper = local(&service());
    let mutex = keeper.mutex("door").unwrap();
    let guard = mutex.lock().await.unwrap();
    let line = [waiting(&mutex).await, waiting(&mutex).await];
    let _ = keeper.close().await;
    for waiting in line {
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }
    assert!(!guard.hold().is_held());
    assert_eq!(mutex.lock().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(mutex.lock_within(Wait::No).await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_next_task_is_granted_at_the_limit_of_a_hold_that_is_kept() {
    let keeper = local(&service());
    let mutex = keeper.mutex("door").unwrap().max_hold(SECOND);
    let kept = mutex.lock().await.unwrap();
    let next = waiting(&mutex).await.await.unwrap().unwrap();
    assert_eq!(kept.hold().lost().await, LossReason::MaxHold);
    assert_eq!(next.fencing_token().turn(), 1);
    drop(kept);
    assert!(next.hold().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_lock_with_a_least_time_is_strict() {
    let keeper = local(&service());
    let mutex = keeper.mutex("door").unwrap().min_hold(10 * SECOND);
    let start = tokio::time::Instant::now();
    drop(mutex.lock().await.unwrap());
    let again = mutex.lock().await.unwrap();
    assert!(start.elapsed() >= 10 * SECOND);
    assert_eq!(again.fencing_token().turn(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_asked_to_give_up_is_the_last_of_its_grant() {
    let service = service();
    let (keeper, operator) = (local(&service), service.keeper());
    let mutex = keeper.mutex("door").unwrap();
    let guard = mutex.lock().await.unwrap();
    let next = waiting(&mutex).await;
    tokio::time::sleep(SECOND).await;
    let revoked =
        tokio::spawn(
            async move { operator.admin().revoke("door", Revocation::default(), Wait::AtMost(60 * SECOND)).await },
        );
    guard.hold().revoked().await;
    tokio::time::sleep(SECOND).await;
    drop(guard);
    assert_eq!(next.await.unwrap().unwrap().fencing_token().turn(), 0);
    assert!(revoked.await.unwrap().unwrap().is_some());
}

/// Most backends need a runtime to join. Memory needs none, so what is seen is that nothing was sent.
#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_on_a_thread_without_a_runtime_leaves_the_join_to_the_next_task() {
    let service = service();
    let (keeper, rival) = (service.keeper_builder().handoff(turns(1)).build(), service.keeper());
    let mutex = keeper.mutex("door").unwrap();
    let guard = mutex.lock().await.unwrap();
    let next = waiting(&mutex).await;
    let rivals = waiting(&rival.mutex("door").unwrap()).await;
    std::thread::spawn(move || drop(guard)).join().unwrap();
    assert_eq!(rival.contenders("door").await.unwrap().len(), 1, "nothing is sent on that thread");
    drop(rivals.await.unwrap().unwrap());
    assert!(next.await.unwrap().unwrap().hold().is_held());
}
