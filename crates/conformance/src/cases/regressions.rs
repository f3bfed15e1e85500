//! Faults of other libraries, by their numbers: they must not occur here.

use lockkeeper_core::{LossReason, Operation};
use lockkeeper_recipes::Event;

use crate::ask::{Ask, LOCK};
use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{Party, enter_all, give_back, granted, parties, release};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    let expiring_after_a_lost_reply = &[FaultKind::LoseReply, FaultKind::ExpireSession];
    vec![
        Case::new("a place whose reply is lost with its session is never taken for one of the next", never_adopted)
            .given_back()
            .needs(expiring_after_a_lost_reply),
        Case::new("a keeper that gave a lock back while cut off does not wait behind its own ghost", no_ghost_of_ours)
            .needs(&[FaultKind::Cut]),
        Case::new("a guard given back just before its session ends leaves the lock free", ends_after_release)
            .needs(&[FaultKind::ExpireSession]),
        Case::new("a keeper whose hold was lost locks again through the same mutex", locks_again)
            .needs(&[FaultKind::ExpireSession]),
        Case::new("a try that loses a race, with its reply or without, leaves nothing", try_leaves_nothing)
            .needs(&[FaultKind::LoseReply]),
        Case::new("a waiter that times out while cut off leaves nothing after healing", timed_out_while_cut)
            .needs(&[FaultKind::Cut]),
    ]
}

fn is_retrying(event: &Event) -> bool {
    matches!(event, Event::Retrying { .. } | Event::Rejoining { .. })
}

/// CURATOR-604 and CURATOR-498: the entry of an ended session can still be seen. A client that takes it for its own
/// holds a lock that vanishes.
async fn never_adopted(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    for _ in 0..5 {
        release(ann.lock("door").await).await;
        let seen = ann.journal.count(|event| is_retrying(event) || is_joined(event));
        ann.inflict(Fault::LoseReply(Operation::Join)).await;
        let locking = tokio::spawn(ann.mutex("door").lock_owned());
        ann.journal
            .until_count("the retry, or the join", seen + 1, |event| is_retrying(event) || is_joined(event))
            .await;
        ann.inflict(Fault::ExpireSession).await;
        let guard = granted(locking).await;
        // A grant of the session before is believed until its end has reached its owner.
        let is_lost = tokio::select! {
            reason = guard.hold().lost() => {
                assert_eq!(reason, LossReason::Expired);
                true
            }
            () = bob.until_contenders("door", 1) => false,
        };
        if !is_lost {
            let shown = bob.shown("door").await;
            assert_eq!(shown[0].id, *guard.hold().contender(), "what is held is what stands in the queue");
            assert!(guard.hold().is_held(), "it did not go with the session before");
            release(guard).await;
        }
        bob.until_contenders("door", 0).await;
    }
}

/// CURATOR-678 and CURATOR-486.
async fn no_ghost_of_ours(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    for _ in 0..5 {
        let guard = ann.lock("door").await;
        ann.inflict(Fault::Cut).await;
        let releasing = tokio::spawn(guard.release());
        ann.inflict(Fault::Heal).await;
        let next = ann.lock("door").await;
        assert!(next.hold().is_held());
        soon("the release", releasing).await.expect("the task does not panic").expect("the lock was held");
        assert_eq!(ann.contenders("door").await, 1);
        release(next).await;
    }
}

/// kazoo #412.
async fn ends_after_release(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    for given_back in [true, false] {
        let guard = ann.lock("door").await;
        let waiting = bob.queue_up("door").await;
        if given_back {
            release(guard).await;
        } else {
            drop(guard);
        }
        ann.inflict(Fault::ExpireSession).await;
        release(granted(waiting).await).await;
        bob.until_contenders("door", 0).await;
    }
}

/// kazoo #282.
async fn locks_again(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let mutex = ann.mutex("door");
    let mut lost = Vec::new();
    for _ in 0..5 {
        let guard = soon("the grant", mutex.lock()).await.expect("the lock is granted");
        assert!(guard.hold().is_held());
        ann.inflict(Fault::ExpireSession).await;
        soon("the loss", guard.hold().lost()).await;
        lost.push(guard);
    }
    assert!(lost.iter().all(|guard| !guard.hold().is_held()));
    let guard = soon("the grant", mutex.lock()).await.expect("the lock is granted");
    drop(lost);
    assert!(guard.hold().is_held());
    release(guard).await;
}

/// kazoo #732.
async fn try_leaves_nothing(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 4).await;
    for round in 0..20 {
        if round % 2 == 0 {
            parties[0].inflict(Fault::LoseReply(Operation::Join)).await;
        }
        let trying: Vec<_> = parties
            .iter()
            .map(|party| {
                let mutex = party.mutex("door");
                tokio::spawn(async move { mutex.try_lock().await })
            })
            .collect();
        let mut guards = Vec::new();
        for task in trying {
            // A lost reply is an error, and does not tell whether the lock is free.
            let outcome = soon("the answer", task).await.expect("the task does not panic");
            guards.extend(outcome.ok().flatten());
        }
        assert!(guards.len() <= 1, "{} have it", guards.len());
        parties[1].until_contenders("door", guards.len()).await;
        drop(guards);
        parties[1].until_contenders("door", 0).await;
        // The reply that was not lost yet is lost now, so that the next round does not lose it.
        drop(soon("an answer", parties[0].mutex("door").try_lock()).await);
        parties[1].until_contenders("door", 0).await;
    }
}

/// CURATOR-45, CURATOR-79 and CURATOR-202, by a timeout instead of an interrupt.
async fn timed_out_while_cut(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    let (hasty, _) = bob.queue_up_in_vain(Ask::Mutex).await;
    let patient = eve.queue_up_as(Ask::Mutex).await;
    bob.inflict(Fault::Cut).await;
    let outcome = soon("the end of the timeout", hasty).await.expect("the task does not panic");
    assert!(!matches!(outcome, Ok(Some(_))));
    give_back(held).await;
    bob.inflict(Fault::Heal).await;
    give_back(granted(patient).await).await;
    ann.until_contenders(LOCK, 0).await;
}
