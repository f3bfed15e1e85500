//! How many holders of several clients are inside at once where a lock lets several in: each stays for some
//! milliseconds, in which another must have been granted its part.

use std::time::Duration;

use lockkeeper_faults::peers::{Ground, Kind, curator, kazoo};
use lockkeeper_recipes::Permits;

use crate::support::turns::{Ours, curators, expect_grants, expect_nothing_left, fleet, kazoos, ours, take_turns};
use crate::turn;

/// A name that starts with a slash is a node's path.
const PATH: &str = "/fleet/lock";

/// The count that says how many permits there are.
const COUNT: &str = "/fleet/permits";

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_ours_share_the_permits_of_a_semaphore() {
    let _turn = turn().await;
    let Some((bench, _)) = fleet(&[curator::availability]).await else { return };
    // Long enough inside that all permits are in use at times.
    let ground = Ground::with_stay(Duration::from_millis(25)).unwrap();
    let theirs = vec![curators(&bench, Kind::Semaphore { permits: 3 }).await];
    let ours = ours(&bench, "", &[Ours::Semaphore(Permits::Fixed(3)), Ours::Semaphore(Permits::Fixed(3))]);
    let most = take_turns(&ground, PATH, theirs, ours, (4, 40)).await;
    assert_eq!(most, 3, "so many at once, and never more");
    expect_grants(&ground, 0, 3 * 4 * 40);
    expect_nothing_left(&bench, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_ours_share_permits_whose_number_a_shared_count_says() {
    let _turn = turn().await;
    let Some((bench, _)) = fleet(&[curator::availability]).await else { return };
    let ground = Ground::with_stay(Duration::from_millis(25)).unwrap();
    let mut theirs = curators(&bench, Kind::SharedSemaphore { count: COUNT }).await;
    theirs.peer.set_shared_count(COUNT, 2).await.unwrap();
    let ours = ours(&bench, "", &[Ours::Semaphore(Permits::Counter(COUNT.to_owned()))]);
    let most = take_turns(&ground, PATH, vec![theirs], ours, (4, 30)).await;
    assert_eq!(most, 2, "so many at once, and never more");
    expect_grants(&ground, 0, 2 * 4 * 30);
    expect_nothing_left(&bench, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_semaphore_and_ours_in_its_layout_share_permits() {
    let _turn = turn().await;
    let Some((bench, _)) = fleet(&[kazoo::availability]).await else { return };
    let ground = Ground::with_stay(Duration::from_millis(25)).unwrap();
    let theirs = vec![kazoos(&bench, Kind::Semaphore { permits: 3 }).await];
    let ours = ours(&bench, "?layout=kazoo", &[Ours::Semaphore(Permits::Fixed(3))]);
    let most = take_turns(&ground, PATH, theirs, ours, (4, 40)).await;
    assert_eq!(most, 3, "so many at once, and never more");
    expect_grants(&ground, 0, 2 * 4 * 40);
    expect_nothing_left(&bench, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_readers_kazoos_and_ours_share() {
    let _turn = turn().await;
    let Some((bench, _)) = fleet(&[curator::availability, kazoo::availability]).await else { return };
    let ground = Ground::with_stay(Duration::from_millis(20)).unwrap();
    let theirs = vec![curators(&bench, Kind::Read).await, kazoos(&bench, Kind::MixedRead).await];
    let ours = ours(&bench, "", &[Ours::Read]);
    let most = take_turns(&ground, PATH, theirs, ours, (4, 20)).await;
    assert!(most > 4, "readers of different clients meet, not {most} at most");
    expect_grants(&ground, 0, 3 * 4 * 20);
}
