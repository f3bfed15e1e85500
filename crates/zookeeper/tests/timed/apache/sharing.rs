//! The holders of several clients inside at once where a lock lets several in: as many as it lets in, all at one time,
//! and never more while the clients take turns.

use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_faults::peers::{Ground, Kind};
use lockkeeper_recipes::Permits;

use crate::support::turns::Other::{self, Curator, Kazoo};
use crate::support::turns::{Ours, bench_with, expect_grants, keepers, take_turns};
use crate::turn;

/// A name that starts with a slash is a node's path.
const PATH: &str = "/fleet/lock";

/// The count that says how many permits there are.
const COUNT: &str = "/fleet/permits";

/// Has all permits in use at one time, one of them by the other client; then neither is granted another. After that
/// they take turns.
async fn share(other: Other, settings: &str, permits: Permits, (count, parties): (u32, usize), rounds: u32) {
    let _turn = turn().await;
    let Some(bench) = bench_with(&[other]).await else { return };
    let (mut peer, kind) = other.start(&bench).await;
    if matches!(permits, Permits::Counter(_)) {
        peer.set_shared_count(COUNT, i32::try_from(count).unwrap()).await.unwrap();
    }
    let ours = keepers(&bench, &vec![(settings, Ours::Semaphore(permits.clone())); parties]);
    let semaphore = ours[0].0.semaphore(PATH, permits).unwrap();
    assert!(peer.lock(kind, PATH, SOON).await.unwrap());
    let mut held = Vec::new();
    for _ in 1..count {
        held.push(soon("a permit", semaphore.acquire()).await.unwrap());
    }
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "all {count} permits are in use");
    assert!(!peer.try_lock(kind, PATH).await.unwrap(), "all {count} permits are in use");
    for permit in held {
        permit.release().await.unwrap();
    }
    peer.release(kind, PATH).await.unwrap();
    // Long enough inside that one permit too many would be seen.
    let ground = Ground::with_stay(Duration::from_millis(25)).unwrap();
    let most = take_turns(&ground, PATH, vec![(peer, kind)], ours, (4, rounds)).await;
    assert!(most <= count as usize, "{most} at once");
    expect_grants(&ground, 0, (1 + parties as u64) * 4 * u64::from(rounds));
    bench.until_nothing_left(PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_ours_share_the_permits_of_a_semaphore() {
    share(Curator(Kind::Semaphore { permits: 3 }), "", Permits::Fixed(3), (3, 2), 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_ours_share_permits_whose_number_a_shared_count_says() {
    let other = Curator(Kind::SharedSemaphore { count: COUNT });
    share(other, "", Permits::Counter(COUNT.to_owned()), (2, 1), 30).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_semaphore_and_ours_in_its_layout_share_permits() {
    share(Kazoo(Kind::Semaphore { permits: 3 }), "?layout=kazoo", Permits::Fixed(3), (3, 1), 40).await;
}
