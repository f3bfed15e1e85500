//! Campaigns by hand.

use std::time::Duration;

use crate::paused::{keepers, service};
use lockkeeper_core::{ErrorKind, LossReason, Mode, Wait};

/// Curator's `testUncreatedPathGetLeader` and `testGetChildrenHitsNoNode`.
#[tokio::test]
async fn an_election_without_candidates_has_no_leader() {
    let election = service().keeper().election("e").unwrap();
    assert!(election.leader().await.unwrap().is_none());
    assert!(election.candidates().await.unwrap().is_empty());
}

/// Curator's `testRotatingLeadership`, and its `Participants` tests.
#[tokio::test(start_paused = true)]
async fn candidates_lead_one_after_another_in_the_order_of_coming_with_growing_tokens() {
    let service = service();
    let first = service.keeper().election("e").unwrap().campaign().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let election = service.keeper().election("e").unwrap();
        waiting.push(tokio::spawn(async move { election.campaign().await }));
        tokio::task::yield_now().await;
    }
    let election = service.keeper().election("e").unwrap();
    let candidates = election.candidates().await.unwrap();
    assert_eq!(candidates.len(), 5);
    assert!(candidates.iter().all(|candidate| candidate.mode == Mode::Candidate));
    let mut leader = first;
    for next in waiting {
        let token = leader.fencing_token();
        assert_eq!(election.leader().await.unwrap().unwrap().token, Some(token));
        assert!(!next.is_finished());
        leader.resign().await.unwrap();
        leader = next.await.unwrap().unwrap();
        assert!(leader.fencing_token() > token);
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_ends_when_its_time_is_up_and_leaves_no_candidate() {
    let [ann, bob] = keepers(&service()).map(|keeper| keeper.election("e").unwrap());
    let leadership = ann.campaign().await.unwrap();
    assert!(bob.campaign_within(Wait::No).await.unwrap().is_none());
    assert!(bob.campaign_within(Wait::AtMost(Duration::from_secs(1))).await.unwrap().is_none());
    assert_eq!(bob.candidates().await.unwrap().len(), 1);
    drop(leadership);
    assert!(bob.campaign_within(Wait::No).await.unwrap().is_some());
}

#[tokio::test]
async fn a_leader_whose_session_ends_is_lost_and_an_election_is_not_a_mutex() {
    let keeper = service().keeper();
    let leadership = keeper.election("e").unwrap().campaign().await.unwrap();
    let refused = keeper.mutex("e").unwrap().try_lock().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::KindMismatch);
    keeper.testing().unwrap().expire_session();
    assert_eq!(leadership.hold().lost().await, LossReason::Expired);
    let error = leadership.resign().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(LossReason::Expired));
}
