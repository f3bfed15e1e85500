//! Barriers: one that is set and removed, and one that members go through together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockkeeper_core::{ErrorKind, Modes, Wait};
use lockkeeper_recipes::{Barrier, DoubleBarrier, Entered, MEMBERS_MAX};
use tokio::task::{JoinSet, yield_now};

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{IN_VAIN, LONG, Party, all_done, enter_all, in_vain, parties};
use crate::waiting::soon;

const MEMBERS: u32 = 5;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a barrier that is not set keeps no client waiting", no_barrier),
        Case::new("a barrier keeps all clients waiting until it is removed", keeps_waiting),
        Case::new(
            "a barrier that is removed while the waiter is cut off lets it go on after healing",
            removed_while_cut,
        )
        .needs(&[FaultKind::Cut]),
        Case::new("a barrier outlives the client that set it", outlives_its_setter),
        Case::new("members go in together and out together, round after round", together).uses(Modes::BARRIER),
        Case::new("one more than needed goes in with the others", over_subscribed).uses(Modes::BARRIER),
        Case::new("a wake-up that is not for it lets no member in", no_bypass).uses(Modes::BARRIER),
        Case::new("a member that gives up does not count, and leaves nothing", gives_up).uses(Modes::BARRIER),
        Case::new("a member whose session expires inside has left, as far as the others can see", dies_inside)
            .uses(Modes::BARRIER)
            .needs(&[FaultKind::ExpireSession]),
        Case::new("a double barrier of no members, or of too many, is refused", bad_number).uses(Modes::BARRIER),
    ]
}

fn barrier(party: &Party) -> Barrier {
    party.keeper.barrier("gate").expect("the name is valid")
}

fn double(party: &Party, members: u32) -> DoubleBarrier {
    party.keeper.double_barrier("hall", members).expect("the name is valid, and there are members")
}

/// Looks whether the barrier is set. A short wait after it needs no time for the opening of a session.
async fn stands(party: &Party) {
    let way = soon("the look", barrier(party).wait_within(Wait::No)).await;
    assert!(way.expect("it can be asked").is_none(), "the barrier is set");
}

async fn no_barrier(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    soon("the way", barrier(&ann).wait()).await.expect("it can be asked");
    assert!(soon("the way", barrier(&ann).wait_within(Wait::No)).await.expect("it can be asked").is_some());
    soon("the removal", barrier(&ann).remove()).await.expect("removing what is not set is no error");
}

async fn keeps_waiting(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 4).await;
    soon("the barrier", barrier(&parties[0]).set()).await.expect("it can be set");
    soon("the barrier", barrier(&parties[1]).set()).await.expect("setting it twice is no error");
    let mut waiting = Vec::new();
    for party in &parties {
        stands(party).await;
        assert!(in_vain(async || barrier(party).wait_within(Wait::AtMost(IN_VAIN / 4)).await).await);
        let barrier = barrier(party);
        waiting.push(tokio::spawn(async move { barrier.wait().await }));
    }
    yield_now().await;
    assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
    soon("the removal", barrier(&parties[2]).remove()).await.expect("it can be removed");
    for waiter in waiting {
        soon("the way", waiter).await.expect("the task does not panic").expect("it can be asked");
    }
}

async fn removed_while_cut(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    soon("the barrier", barrier(&ann).set()).await.expect("it can be set");
    stands(&bob).await;
    assert!(in_vain(async || barrier(&bob).wait_within(Wait::AtMost(IN_VAIN / 4)).await).await);
    let waiter = barrier(&bob);
    let waiting = tokio::spawn(async move { waiter.wait().await });
    yield_now().await;
    bob.inflict(Fault::Cut).await;
    soon("the removal", barrier(&ann).remove()).await.expect("it can be removed");
    bob.inflict(Fault::Heal).await;
    soon("the way", waiting).await.expect("the task does not panic").expect("a transient error is retried");
}

async fn outlives_its_setter(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    soon("the barrier", barrier(&ann).set()).await.expect("it can be set");
    soon("the close", ann.keeper.close()).await.expect("the service is told");
    drop(ann);
    stands(&bob).await;
    assert!(in_vain(async || barrier(&bob).wait_within(Wait::AtMost(IN_VAIN)).await).await);
    soon("the removal", barrier(&bob).remove()).await.expect("it can be removed");
}

async fn together(fixture: &dyn Fixture) {
    const ROUNDS: u32 = 5;
    let (came, left) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..MEMBERS {
        let (barrier, came, left) = (double(&Party::enter(fixture).await, MEMBERS), came.clone(), left.clone());
        tasks.spawn(async move {
            for round in 1..=ROUNDS {
                came.fetch_add(1, Ordering::SeqCst);
                let inside = barrier.enter().await.expect("it goes in");
                assert_eq!(came.load(Ordering::SeqCst), round * MEMBERS, "in before all had come");
                assert!(inside.hold().is_held());
                yield_now().await;
                left.fetch_add(1, Ordering::SeqCst);
                inside.leave().await.expect("it was inside");
                assert!(left.load(Ordering::SeqCst) >= round * MEMBERS, "out before all were leaving");
            }
        });
    }
    all_done(tasks).await;
}

async fn over_subscribed(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 3).await;
    let enter = |party: &Party| {
        let barrier = double(party, 2);
        async move { barrier.enter().await }
    };
    let first = parties[0].queue_up_for(enter(&parties[0])).await;
    assert!(!first.is_finished());
    let second = soon("the way in", double(&parties[1], 2).enter()).await.expect("it goes in");
    let first = soon("the way in", first).await.expect("the task does not panic").expect("it goes in");
    let third = soon("the way in", double(&parties[2], 2).enter()).await.expect("it goes in with the others");
    let leaving = [first, second, third].map(|inside| tokio::spawn(inside.leave()));
    for leaving in leaving {
        soon("the way out", leaving).await.expect("the task does not panic").expect("it was inside");
    }
}

/// Curator's GH-1290: a member that was woken before all had come went in.
async fn no_bypass(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let barrier = double(&ann, 3);
    let first = ann.queue_up_for(async move { barrier.enter().await }).await;
    for _ in 0..5 {
        // Each coming and going wakes the waiting members.
        assert!(in_vain(async || double(&bob, 3).enter_within(Wait::AtMost(IN_VAIN)).await).await);
        ann.until_contenders("hall", 1).await;
        assert!(!first.is_finished(), "in before all had come");
    }
    first.abort();
    drop(first.await);
    bob.until_contenders("hall", 0).await;
}

async fn gives_up(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    assert!(in_vain(async || double(&ann, 2).enter_within(Wait::AtMost(IN_VAIN)).await).await);
    bob.until_contenders("hall", 0).await;
    let refused = in_vain(async || double(&bob, 2).enter_within(Wait::AtMost(IN_VAIN)).await).await;
    assert!(refused, "the one before does not count");
    // The place is given up in the background, and another member could count on it until then.
    ann.until_contenders("hall", 0).await;
    let (one, other) = both_enter(&ann, &bob).await;
    match soon("the end of the timeout", one.leave_within(Wait::AtMost(IN_VAIN))).await {
        Ok(left) => assert!(left.is_none(), "the other one is still inside"),
        // It has left all the same, and only the others could not be looked for in time.
        Err(error) => assert!(error.is_transient(), "a timeout is no error: {error:?}"),
    }
    assert!(soon("the way out", other.leave_within(Wait::AtMost(LONG))).await.expect("it was inside").is_some());
}

async fn both_enter(ann: &Party, bob: &Party) -> (Entered, Entered) {
    let [one, other] = [double(ann, 2), double(bob, 2)];
    let both = soon("the way in", async { tokio::try_join!(one.enter(), other.enter()) }).await;
    both.expect("they go in")
}

async fn dies_inside(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let (one, other) = both_enter(&ann, &bob).await;
    let leaving = tokio::spawn(other.leave());
    yield_now().await;
    ann.inflict(Fault::ExpireSession).await;
    soon("the way out", leaving).await.expect("the task does not panic").expect("it was inside");
    let error = soon("the refusal", one.leave()).await.expect_err("its place was lost");
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error:?}");
}

async fn bad_number(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    for members in [0, MEMBERS_MAX + 1] {
        let error = ann.keeper.double_barrier("hall", members).expect_err("it can never be gone through");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    }
    assert_eq!(ann.journal.count(is_joined), 0);
}
