//! Elections that real Curator and kazoo share with ours, each in the layout of the peer: the lead is handed over.
//! `kinds` has them lead by turns.

use std::time::Duration;

use lockkeeper_conformance::{SOON, answered, soon, until};
use lockkeeper_core::Wait;
use lockkeeper_faults::peers::{Kind, curator};

use crate::support::turns::{Other, bench_with};

/// The session of a peer that will be killed; the least that these servers grant.
const SHORT_SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// How long a client that is kept out must have waited: clients list and watch in a few milliseconds.
const KEPT_OUT: Duration = Duration::from_millis(300);

/// A name that starts with a slash is a node's path.
const PATH: &str = "/elections/one";

const LATCH: Other = Other::Curator(Kind::LeaderLatch);

/// Hands the lead from the peer to ours and back, and checks what ours sees of it.
async fn hand_over_both_ways(other: Other, settings: &str) {
    let Some(bench) = bench_with(&[other]).await else { return };
    let ((mut peer, kind), keeper) = (other.start(&bench).await, bench.neighbour(settings).keeper);
    let election = keeper.election(PATH).unwrap();
    let candidates = async |count: usize| {
        until("the candidates", async || election.candidates().await.unwrap().len() == count).await;
    };
    let mut changes = election.changes();
    assert_eq!(soon("no leader", changes.next()).await.unwrap(), None);

    assert!(peer.lock(kind, PATH, SOON).await.unwrap());
    let theirs = soon("their lead", changes.next()).await.unwrap().expect("one leads");
    assert_eq!(peer.node(kind, PATH).await.unwrap(), format!("{PATH}/{theirs}"));
    assert_eq!(election.leader().await.unwrap().map(|leader| leader.id), Some(theirs.clone()));
    assert!(election.campaign_within(Wait::No).await.unwrap().is_none());
    assert!(answered(async || election.campaign_within(Wait::AtMost(KEPT_OUT)).await).await.is_none());

    let (leadership, ()) = tokio::join!(election.campaign(), async {
        candidates(2).await;
        assert_eq!(election.leader().await.unwrap().map(|leader| leader.id), Some(theirs));
        peer.release(kind, PATH).await.unwrap();
    });
    let leadership = leadership.unwrap();
    let ours = leadership.hold().contender().clone();
    assert_eq!(soon("our lead", changes.next()).await.unwrap(), Some(ours.clone()));
    assert!(!peer.try_lock(kind, PATH).await.unwrap());
    assert!(!peer.lock(kind, PATH, KEPT_OUT).await.unwrap());

    let (granted, ()) = tokio::join!(peer.lock(kind, PATH, SOON), async {
        candidates(2).await;
        leadership.resign().await.unwrap();
    });
    assert!(granted.unwrap());
    assert_ne!(soon("their lead", changes.next()).await.unwrap().expect("one leads"), ours);
    peer.release(kind, PATH).await.unwrap();
    assert_eq!(soon("no leader", changes.next()).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_latch_hands_the_lead_to_ours_and_back() {
    hand_over_both_ways(LATCH, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_selector_hands_the_lead_to_ours_and_back() {
    hand_over_both_ways(Other::Curator(Kind::LeaderSelector), "?election=selector").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_election_hands_the_lead_to_ours_and_back() {
    hand_over_both_ways(Other::Kazoo(Kind::Election), "?election=kazoo").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_leads_after_curators_leader_was_killed_and_curators_latch_after_ours_died() {
    let Some(bench) = bench_with(&[LATCH]).await else { return };
    let mut killed = curator::start(&bench.servers(), SHORT_SESSION_TIMEOUT).await.unwrap();
    let (keeper, mut heir) = (bench.neighbour("").keeper, bench.curator().await);
    let election = keeper.election(PATH).unwrap();
    assert!(killed.lock(Kind::LeaderLatch, PATH, SOON).await.unwrap());
    let (leadership, ()) = tokio::join!(election.campaign(), async {
        until("both", async || election.candidates().await.unwrap().len() == 2).await;
        killed.process().kill();
    });
    let leadership = leadership.unwrap();
    let (granted, ()) = tokio::join!(heir.lock(Kind::LeaderLatch, PATH, SOON), async {
        until("both", async || election.candidates().await.unwrap().len() == 2).await;
        // The session ends, and with it the lead that was never given up.
        keeper.close().await.unwrap();
    });
    assert!(granted.unwrap());
    assert!(!leadership.hold().is_held());
    heir.release(Kind::LeaderLatch, PATH).await.unwrap();
}
