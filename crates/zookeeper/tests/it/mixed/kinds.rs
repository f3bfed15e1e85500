//! Mixed fleets of every kind of lock: real Curator, kazoo and go-zookeeper take turns with ours, for thousands of
//! grants, on a ground where two that must not meet are certainly seen.
//!
//! Which pairs exclude each other, and what each must be told, is the table of `docs/mixed-fleets.md`; `pairs`
//! tries it pair by pair.

use std::time::Duration;

use lockkeeper_conformance::{SOON, until};
use lockkeeper_faults::peers::{Ground, Kind, curator};
use lockkeeper_recipes::Permits;

use crate::support::turns::Other::{self, Curator, Go, Kazoo};
use crate::support::turns::{Ours, Turns, bench_with, expect_grants, keepers, start_all, take_turns};

const PATH: &str = "/fleet/lock";

/// The session of a peer that will be killed; the least that these servers grant.
const SHORT_SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// Has clients take turns, until each has as many as it wants; none if the test is skipped.
async fn share(others: &[Other], ours: &[(&str, Ours)], turns: Turns) -> Option<Ground> {
    let bench = bench_with(others).await?;
    let ground = Ground::new().unwrap();
    let most = take_turns(&ground, PATH, start_all(&bench, others).await, keepers(&bench, ours), turns).await;
    let reads = |other: &&Other| matches!(other, Curator(Kind::Read) | Kazoo(Kind::Read | Kind::MixedRead));
    let readers = others.iter().filter(reads).count() + ours.iter().filter(|(_, it)| matches!(it, Ours::Read)).count();
    let permits = ours.iter().filter(|(_, it)| matches!(it, Ours::Semaphore(_))).count();
    assert!(most == 1 || readers > 0, "{most} at once");
    let of_each = u64::from(turns.0 * turns.1);
    let sharers = readers + permits;
    expect_grants(&ground, (others.len() + ours.len() - sharers) as u64 * of_each, sharers as u64 * of_each);
    bench.until_nothing_left(PATH).await;
    Some(ground)
}

/// As [`share`]; each has its turn in the order of the nodes.
async fn share_in_order(others: &[Other], ours: &[(&str, Ours)], turns: Turns) {
    if let Some(ground) = share(others, ours, turns).await {
        assert_eq!(ground.overtaken().unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_go_zookeeper_kazoo_with_curators_names_and_ours_share_a_mutex() {
    let others = [Curator(Kind::Mutex), Go, Kazoo(Kind::CuratorNamedMutex)];
    share_in_order(&others, &[("", Ours::Mutex)], (4, 125)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_kazoo_told_of_each_other_share_a_mutex_with_ours_in_either_layout() {
    let others = [Curator(Kind::MixedMutex), Kazoo(Kind::MixedMutex)];
    share_in_order(&others, &[("", Ours::Mutex), ("?layout=kazoo", Ours::Mutex)], (4, 75)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_as_it_comes_and_ours_in_its_layout_share_a_mutex() {
    let ours = [("?layout=kazoo", Ours::Mutex), ("?layout=kazoo", Ours::Mutex)];
    share(&[Kazoo(Kind::Mutex), Kazoo(Kind::Mutex)], &ours, (2, 80)).await;
}

/// What the tests above would see if exclusion failed: kazoo without its keyword does not wait for names like
/// Curator's.
#[tokio::test(flavor = "multi_thread")]
async fn kazoo_without_its_keyword_does_not_wait_for_ours_and_the_ground_shows_it() {
    let others = [Kazoo(Kind::Mutex)];
    let Some(bench) = bench_with(&others).await else { return };
    let (ground, theirs) = (Ground::new().unwrap(), start_all(&bench, &others).await);
    take_turns(&ground, PATH, theirs, keepers(&bench, &[("", Ours::Mutex)]), (2, 80)).await;
    assert_ne!(ground.faults().unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_ours_share_a_read_write_lock() {
    let others = [Curator(Kind::Read), Curator(Kind::Write)];
    share_in_order(&others, &[("", Ours::Read), ("", Ours::Write)], (3, 80)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_told_of_our_names_and_ours_share_a_read_write_lock() {
    let others = [Kazoo(Kind::MixedRead), Kazoo(Kind::MixedWrite)];
    share(&others, &[("", Ours::Read), ("", Ours::Write)], (3, 60)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_as_it_comes_and_ours_in_its_layout_share_a_read_write_lock() {
    let others = [Kazoo(Kind::Read), Kazoo(Kind::Write)];
    share(&others, &[("?layout=kazoo", Ours::Read), ("?layout=kazoo", Ours::Write)], (3, 60)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_semaphore_mutex_is_our_semaphore_of_one_permit() {
    // A peer visits the ground as its kind does: Curator's semaphore mutex as a writer, our permit as a permit.
    share(&[Curator(Kind::SemaphoreMutex)], &[("", Ours::Semaphore(Permits::Fixed(1)))], (4, 60)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_latch_and_ours_lead_by_turns() {
    share_in_order(&[Curator(Kind::LeaderLatch)], &[("", Ours::Lead), ("", Ours::Lead)], (3, 20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_selector_and_ours_lead_by_turns() {
    let ours = [("?election=selector", Ours::Lead), ("?election=selector", Ours::Lead)];
    share_in_order(&[Curator(Kind::LeaderSelector)], &ours, (3, 20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_election_and_ours_in_either_layout_lead_by_turns() {
    for settings in ["?election=kazoo", "?layout=kazoo"] {
        share_in_order(&[Kazoo(Kind::Election)], &[(settings, Ours::Lead), (settings, Ours::Lead)], (3, 20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_leads_after_curators_leader_was_killed_and_curators_latch_after_ours_died() {
    let Some(bench) = bench_with(&[Curator(Kind::LeaderLatch)]).await else { return };
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
