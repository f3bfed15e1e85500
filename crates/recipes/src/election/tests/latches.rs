//! Latches; the counterparts of Curator's `TestLeaderLatch`.

use std::time::Duration;

use crate::memory::MemoryService;
use crate::paused::{AT_ONCE, after_pauses, at_once, keepers, service, settle};
use crate::{CloseMode, Keeper, LatchEvent, LeaderLatch};
use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{ErrorKind, SafeUntil};

fn latch(keeper: &Keeper) -> LeaderLatch {
    LeaderLatch::start(&keeper.election("e").unwrap())
}

fn leaders(latches: &[LeaderLatch]) -> Vec<usize> {
    (0..latches.len()).filter(|&at| latches[at].has_leadership()).collect()
}

/// `testBasic`, `testBasicAlt`, `testWaiting` and `testCorrectWatching`.
#[tokio::test(start_paused = true)]
async fn of_many_latches_one_leads_and_when_it_is_closed_the_next() {
    let service = service();
    let keepers = keepers::<5>(&service);
    let mut latches: Vec<_> = keepers.iter().map(latch).collect();
    settle().await;
    let mut last_token = None;
    while !latches.is_empty() {
        let token = at_once("the lead", latches[0].until_leader()).await.unwrap().fencing_token();
        assert!(last_token < Some(token));
        last_token = Some(token);
        assert_eq!(leaders(&latches), [0]);
        latches.remove(0).close(CloseMode::Silent).await.unwrap();
        tokio::time::sleep(AT_ONCE).await;
    }
    assert!(keepers[0].contenders("e").await.unwrap().is_empty());
}

/// `testSessionInterruptionDoNotCauseBrainSplit` and `testResettingOfLeadershipAfterConcurrentLeadershipChange`.
#[tokio::test(start_paused = true)]
async fn a_latch_whose_session_expires_stands_again_behind_the_others() {
    let service = service();
    let keepers = keepers::<3>(&service);
    let latches: Vec<_> = keepers.iter().map(latch).collect();
    settle().await;
    for round in 0..9 {
        let leader = round % 3;
        assert_eq!(leaders(&latches), [leader]);
        keepers[leader].testing().unwrap().expire_session();
        assert!(!latches[leader].has_leadership(), "at once, also before its task is told");
        settle().await;
    }
    assert_eq!(keepers[0].contenders("e").await.unwrap().len(), 3);
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

/// `testNoServerAtStart`.
#[tokio::test(start_paused = true)]
async fn a_latch_that_is_started_without_a_way_to_the_service_leads_when_there_is_one() {
    let keeper = service().keeper();
    keeper.testing().unwrap().cut(SafeUntil::ProcessEnd);
    let latch = latch(&keeper);
    settle().await;
    assert!(!latch.has_leadership());
    keeper.testing().unwrap().heal();
    after_pauses("the lead", latch.until_leader()).await.unwrap();
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

/// `testCallbackSanity`, `testCallbackNotifyLeader` and `testCallbackDontNotify`.
#[tokio::test(start_paused = true)]
async fn listeners_are_told_of_each_lead_and_its_end_but_not_of_the_last_end_if_closed_silently() {
    for mode in [CloseMode::NotifyLeader, CloseMode::Silent] {
        let keeper = service().keeper();
        let latch = latch(&keeper);
        let mut changes = [latch.changes(), latch.changes()];
        for _ in 0..3 {
            for changes in &mut changes {
                let change = at_once("the change", changes.next()).await;
                assert!(matches!(change, Some(LatchEvent::Leader(hold)) if hold.is_held()));
            }
            keeper.testing().unwrap().expire_session();
            for changes in &mut changes {
                assert!(matches!(at_once("the change", changes.next()).await, Some(LatchEvent::NotLeader)));
            }
            settle().await;
        }
        for changes in &mut changes {
            assert!(matches!(at_once("the change", changes.next()).await, Some(LatchEvent::Leader(_))));
        }
        latch.close(mode).await.unwrap();
        for changes in &mut changes {
            if mode == CloseMode::NotifyLeader {
                assert!(matches!(at_once("the change", changes.next()).await, Some(LatchEvent::NotLeader)));
            }
            assert!(at_once("the change", changes.next()).await.is_none());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_latch_resigns_and_its_listeners_are_told() {
    let keeper = service().keeper();
    let latch = latch(&keeper);
    let hold = at_once("the lead", latch.until_leader()).await.unwrap();
    let mut changes = latch.changes();
    assert!(matches!(at_once("the change", changes.next()).await, Some(LatchEvent::Leader(_))));
    drop(latch);
    assert!(matches!(at_once("the change", changes.next()).await, Some(LatchEvent::NotLeader)));
    assert!(!hold.is_held());
    assert!(keeper.contenders("e").await.unwrap().is_empty());
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
    after_pauses("the lead", latch.until_leader()).await.unwrap();
    assert!(matches!(at_once("the change", before.next()).await, Some(LatchEvent::Leader(_))));
    let mut behind = latch.changes();
    drop(latch);
    settle().await;
    assert!(matches!(at_once("the change", before.next()).await, Some(LatchEvent::NotLeader)));
    assert!(at_once("the change", before.next()).await.is_none());
    assert!(at_once("the change", behind.next()).await.is_none(), "the lead was over before it was told");
}
