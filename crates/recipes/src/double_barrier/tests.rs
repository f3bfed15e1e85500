//! Double barriers on the memory backend under paused time; the counterparts of Curator's tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_core::{ErrorKind, Operation, Result, SafeUntil, Wait};
use tokio::task::JoinHandle;

use crate::Keeper;
use crate::double_barrier::Entered;
use crate::keeper::memory::MemoryService;
use crate::tests::{AT_ONCE, at_once, keepers, service, settle};

fn enter(keeper: &Keeper, members: u32) -> JoinHandle<Result<Entered>> {
    let barrier = keeper.double_barrier("d", members).unwrap();
    tokio::spawn(async move { barrier.enter().await })
}

fn leave(entered: Entered) -> JoinHandle<Result<()>> {
    tokio::spawn(entered.leave())
}

/// Waits until a member is in, or out.
async fn passed<T>(task: JoinHandle<Result<T>>) -> T {
    at_once("the way in or out", task).await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_member_that_comes_after_one_of_a_round_has_left_waits_for_the_next_round() {
    let [ann, bob, eve, dan] = keepers(&service());
    let (first, second) = (enter(&ann, 2), enter(&bob, 2));
    let (first, second) = (passed(first).await, passed(second).await);
    assert!(first.leave_within(Wait::No).await.unwrap().is_none());
    let third = enter(&eve, 2);
    settle().await;
    assert!(!third.is_finished(), "bob is of the round before");
    let fourth = enter(&dan, 2);
    let (third, fourth) = (passed(third).await, passed(fourth).await);
    // Those of the second round do not wait for the straggler of the first, nor it for them.
    let leaving = leave(third);
    passed(leave(second)).await;
    settle().await;
    assert!(!leaving.is_finished());
    passed(leave(fourth)).await;
    passed(leaving).await;
}

/// The first has left, a late one is inside, and the next round begins: the second waits for the late one all the same.
#[tokio::test(start_paused = true)]
async fn one_that_was_late_for_a_round_is_of_it_also_after_the_next_round_has_begun() {
    for second_leaves_first in [false, true] {
        let service = service();
        let keepers: Vec<_> = (0..5).map(|_| service.keeper()).collect();
        let (first, second) = (enter(&keepers[0], 2), enter(&keepers[1], 2));
        let (first, second) = (passed(first).await, passed(second).await);
        let late = passed(enter(&keepers[2], 2)).await;
        assert!(first.leave_within(Wait::No).await.unwrap().is_none());
        let mut leaving = None;
        let mut second = Some(second);
        if second_leaves_first {
            leaving = second.take().map(leave);
            settle().await;
        }
        let next = (enter(&keepers[3], 2), enter(&keepers[4], 2));
        let next = (passed(next.0).await, passed(next.1).await);
        let leaving = leaving.or_else(|| second.take().map(leave)).unwrap();
        settle().await;
        assert!(!leaving.is_finished(), "the late one is inside");
        passed(leave(late)).await;
        passed(leaving).await;
        let next = (leave(next.0), leave(next.1));
        passed(next.0).await;
        passed(next.1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_member_whose_session_expires_comes_anew() {
    let [ann, bob] = keepers(&service());
    let first = enter(&ann, 2);
    settle().await;
    ann.testing().unwrap().expire_session();
    settle().await;
    let second = passed(enter(&bob, 2)).await;
    let leaving = leave(second);
    passed(leave(passed(first).await)).await;
    passed(leaving).await;
}

/// The reply to each request of the member that completes the round is lost, and the request took effect all the same.
#[tokio::test(start_paused = true)]
async fn a_lost_reply_leaves_no_member_outside() {
    for lost in [Operation::Join, Operation::Value, Operation::View] {
        let [ann, bob] = keepers(&service());
        let first = enter(&ann, 2);
        settle().await;
        bob.testing().unwrap().drop_next_reply(lost);
        let second = enter(&bob, 2);
        settle().await;
        let (first, second) = (leave(passed(first).await), leave(passed(second).await));
        passed(first).await;
        passed(second).await;
    }
}

/// Others may have counted on its place by then. If it took another place, they would be inside without it.
#[tokio::test(start_paused = true)]
async fn a_member_whose_first_look_fails_keeps_the_place_that_others_count_on() {
    let [ann, bob] = keepers(&service());
    ann.testing().unwrap().drop_next_reply(Operation::Value);
    let first = enter(&ann, 2);
    tokio::time::sleep(AT_ONCE).await;
    assert!(!first.is_finished());
    let second = passed(enter(&bob, 2)).await;
    let leaving = leave(second);
    settle().await;
    passed(leave(passed(first).await)).await;
    passed(leaving).await;
}

#[tokio::test(start_paused = true)]
async fn a_value_of_another_kind_is_refused_and_left_alone() {
    let keeper = service().keeper();
    keeper.shared_counter("d").unwrap().set(7).await.unwrap();
    let error = keeper.double_barrier("d", 1).unwrap().enter().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert_eq!(keeper.shared_counter("d").unwrap().get().await.unwrap().number(), 7);
    assert!(keeper.contenders("d").await.unwrap().is_empty());
}

/// With exactly as many members as are needed the barrier is strict: no member is in before all have come, nor out
/// before all have left, in every round, on several threads, while connections break and recover.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_several_threads_with_a_broken_way_now_and_then_no_round_mixes_with_another() {
    const MEMBERS: usize = 4;
    const ROUNDS: usize = 60;
    let service = MemoryService::new(Arc::new(lockkeeper_core::clock::SystemClock));
    let count = || -> Arc<Vec<AtomicUsize>> { Arc::new((0..ROUNDS).map(|_| AtomicUsize::new(0)).collect()) };
    let (came, left) = (count(), count());
    let retry = crate::retry::RetryPolicy::forever(Duration::from_millis(1), Duration::from_millis(2));
    let keepers: Vec<_> = (0..MEMBERS).map(|_| service.keeper_builder().retry(retry.clone()).build()).collect();
    let member = |keeper: &Keeper| {
        let barrier = keeper.double_barrier("d", u32::try_from(MEMBERS).unwrap()).unwrap();
        let (came, left) = (came.clone(), left.clone());
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                came[round].fetch_add(1, Ordering::SeqCst);
                let entered = barrier.enter().await.unwrap();
                assert_eq!(came[round].load(Ordering::SeqCst), MEMBERS, "in round {round}");
                tokio::task::yield_now().await;
                left[round].fetch_add(1, Ordering::SeqCst);
                entered.leave().await.unwrap();
                assert_eq!(left[round].load(Ordering::SeqCst), MEMBERS, "in round {round}");
            }
        })
    };
    let members: Vec<_> = keepers.iter().map(member).collect();
    let mut turn = 0;
    while members.iter().any(|member| !member.is_finished()) {
        let testing = keepers[turn % MEMBERS].testing().unwrap();
        testing.cut(SafeUntil::ProcessEnd);
        tokio::task::yield_now().await;
        testing.heal();
        tokio::time::sleep(Duration::from_micros(300)).await;
        turn += 1;
        assert!(turn < 100_000, "the rounds do not end");
    }
    for member in members {
        member.await.unwrap();
    }
    assert_eq!(keepers[0].shared_value("d").unwrap().get().await.unwrap(), None, "the note is cleared away");
}
