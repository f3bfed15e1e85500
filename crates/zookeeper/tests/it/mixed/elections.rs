//! An election that real Curator shares with ours, whose leaders die. `kinds` has them lead by turns.

use std::time::Duration;

use lockkeeper_conformance::{SOON, until};
use lockkeeper_faults::peers::{Kind, curator};

use crate::support::turns::{Other, bench_with};

/// The session of a peer that will be killed; the least that these servers grant.
const SHORT_SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// A name that starts with a slash is a node's path.
const PATH: &str = "/elections/one";

const LATCH: Other = Other::Curator(Kind::LeaderLatch);

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
