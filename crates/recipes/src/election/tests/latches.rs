//! Latches; the counterparts of Curator's `TestLeaderLatch`.

use std::time::Duration;

use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{ErrorKind, LossReason, SafeUntil};

use crate::keeper::memory::MemoryService;
use crate::tests::{after_pauses, at_once, keepers, service, settle};
use crate::{CloseMode, Keeper, LatchEvent, LeaderLatch};

fn latch(keeper: &Keeper) -> LeaderLatch {
    LeaderLatch::start(&keeper.election("e").unwrap())
}

fn leaders(latches: &[LeaderLatch]) -> Vec<usize> {
    (0..latches.len()).filter(|&at| latches[at].has_leadership()).collect()
}

/// `testLostConnection`, and instead of `testErrorPolicies`: a latch leads while its hold may be believed.
#[tokio::test(start_paused = true)]
async fn a_latch_that_is_cut_off_leads_until_its_deadline_and_no_longer() {
    let clock = TestClock::new();
    let service = MemoryService::new(std::sync::Arc::new(clock.clone()));
    let [ann, bob] = keepers(&service);
    let (first, second) = (latch(&ann), latch(&bob));
    at_once("the lead", first.until_leader()).await.unwrap();
    let deadline = clock.now().saturating_add(Duration::from_secs(10));
    ann.testing().unwrap().cut(SafeUntil::At(deadline));
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(first.has_leadership());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!first.has_leadership());
    ann.testing().unwrap().expire_session();
    at_once("the lead", second.until_leader()).await.unwrap();
    ann.testing().unwrap().heal();
    settle().await;
    second.close(CloseMode::Silent).await.unwrap();
    after_pauses("the lead", first.until_leader()).await.unwrap();
}

/// `testWatchedNodeDeletedOnReconnect`, `testResetRace`, `testCreateDeleteRace` and
/// `testLeadershipElectionWhenNodeDisappearsAfterChildrenAreRetrieved`.
#[tokio::test(start_paused = true)]
async fn a_latch_whose_candidate_is_removed_leading_or_waiting_stands_again() {
    let service = service();
    let [ann, bob] = keepers(&service);
    let latches = [latch(&ann), latch(&bob)];
    settle().await;
    for waits in [true, false] {
        let contenders = ann.contenders("e").await.unwrap();
        let removed = &contenders[usize::from(waits)].id;
        ann.testing().unwrap().remove_contender("e", removed).unwrap();
        settle().await;
        assert_eq!(leaders(&latches), [usize::from(!waits)]);
        assert_eq!(ann.contenders("e").await.unwrap().len(), 2);
    }
}

/// `testProperCloseWithoutConnectionEstablished`.
#[tokio::test(start_paused = true)]
async fn a_latch_is_closed_properly_without_ever_having_had_a_way_to_the_service() {
    let keeper = service().keeper();
    keeper.testing().unwrap().cut(SafeUntil::ProcessEnd);
    let latch = latch(&keeper);
    settle().await;
    at_once("the close", latch.close(CloseMode::NotifyLeader)).await.unwrap();
}

/// Instead of `testRelativePath`: a latch that can never lead fails instead of waiting.
#[tokio::test(start_paused = true)]
async fn a_latch_whose_campaign_fails_for_good_says_why() {
    let keeper = service().keeper();
    assert_eq!(keeper.election("").unwrap_err().kind(), ErrorKind::InvalidName);
    let _guard = keeper.mutex("e").unwrap().lock().await.unwrap();
    let latch = latch(&keeper);
    assert_eq!(at_once("the lead", latch.until_leader()).await.unwrap_err().kind(), ErrorKind::KindMismatch);
    assert!(at_once("the change", latch.changes().next()).await.is_none());
    assert_eq!(latch.close(CloseMode::Silent).await.unwrap_err().kind(), ErrorKind::KindMismatch);
}

/// A loop over the changes of a latch ends with the latch.
#[tokio::test(start_paused = true)]
async fn the_listeners_of_a_dropped_latch_are_told_of_its_end_once_and_of_no_lead_after_it() {
    let [ann] = keepers(&service());
    let latch = latch(&ann);
    let mut before = latch.changes();
    let hold = after_pauses("the lead", latch.until_leader()).await.unwrap();
    assert!(matches!(at_once("the change", before.next()).await, Some(LatchEvent::Leader(_))));
    let mut behind = latch.changes();
    drop(latch);
    settle().await;
    assert!(!hold.is_held());
    assert!(matches!(at_once("the change", before.next()).await, Some(LatchEvent::NotLeader)));
    assert!(at_once("the change", before.next()).await.is_none());
    assert!(at_once("the change", behind.next()).await.is_none(), "the lead was over before it was told");
}

#[tokio::test(start_paused = true)]
async fn a_latch_lives_as_long_as_a_clone_and_each_close_of_it_answers_as_the_first_did() {
    let keeper = service().keeper();
    let first = latch(&keeper);
    let second = first.clone();
    drop(first);
    let hold = after_pauses("the lead", second.until_leader()).await.unwrap();
    let mut changes = second.changes();
    assert!(matches!(at_once("the change", changes.next()).await, Some(LatchEvent::Leader(_))));
    keeper.testing().unwrap().expire_session();
    let third = second.clone();
    let closing = second.close(CloseMode::NotifyLeader);
    for closing in [tokio::spawn(closing), tokio::spawn(third.close(CloseMode::Silent))] {
        let error = at_once("the close", closing).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost(LossReason::Expired));
    }
    assert!(!hold.is_held() && !third.has_leadership());
    let told = at_once("the change", changes.next()).await;
    assert!(matches!(told, Some(LatchEvent::NotLeader)), "the first mode counts: {told:?}");
    assert!(keeper.contenders("e").await.unwrap().is_empty());
}
