//! How many holders of several clients are inside at once where a lock lets several in: as many as it lets in, all at
//! one time, and never more while the clients take turns.

use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_faults::peers::{Ground, Kind, curator, kazoo};
use lockkeeper_recipes::{Keeper, Permits};

use crate::support::turns::{
    Ours, Theirs, curators, expect_grants, expect_nothing_left, fleet, kazoos, ours, take_turns,
};
use crate::turn;

/// A name that starts with a slash is a node's path.
const PATH: &str = "/fleet/lock";

/// The count that says how many permits there are.
const COUNT: &str = "/fleet/permits";

/// Has all permits in use at one time, one of them by the peer; then neither is granted another.
async fn all_are_in_use_at_once(theirs: &mut Theirs, keeper: &Keeper, permits: Permits, count: usize) {
    let (peer, kind) = (&mut theirs.peer, theirs.kind);
    assert!(peer.lock(kind, PATH, SOON).await.unwrap());
    let semaphore = keeper.semaphore(PATH, permits).unwrap();
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
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_ours_share_the_permits_of_a_semaphore() {
    let _turn = turn().await;
    let Some((bench, _)) = fleet(&[curator::availability]).await else { return };
    // Long enough inside that one permit too many would be seen.
    let ground = Ground::with_stay(Duration::from_millis(25)).unwrap();
    let mut theirs = curators(&bench, Kind::Semaphore { permits: 3 }).await;
    let ours = ours(&bench, "", &[Ours::Semaphore(Permits::Fixed(3)), Ours::Semaphore(Permits::Fixed(3))]);
    all_are_in_use_at_once(&mut theirs, &ours[0].0, Permits::Fixed(3), 3).await;
    let most = take_turns(&ground, PATH, vec![theirs], ours, (4, 40)).await;
    assert!(most <= 3, "{most} at once");
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
    all_are_in_use_at_once(&mut theirs, &ours[0].0, Permits::Counter(COUNT.to_owned()), 2).await;
    let most = take_turns(&ground, PATH, vec![theirs], ours, (4, 30)).await;
    assert!(most <= 2, "{most} at once");
    expect_grants(&ground, 0, 2 * 4 * 30);
    expect_nothing_left(&bench, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_semaphore_and_ours_in_its_layout_share_permits() {
    let _turn = turn().await;
    let Some((bench, _)) = fleet(&[kazoo::availability]).await else { return };
    let ground = Ground::with_stay(Duration::from_millis(25)).unwrap();
    let mut theirs = kazoos(&bench, Kind::Semaphore { permits: 3 }).await;
    let ours = ours(&bench, "?layout=kazoo", &[Ours::Semaphore(Permits::Fixed(3))]);
    all_are_in_use_at_once(&mut theirs, &ours[0].0, Permits::Fixed(3), 3).await;
    let most = take_turns(&ground, PATH, vec![theirs], ours, (4, 40)).await;
    assert!(most <= 3, "{most} at once");
    expect_grants(&ground, 0, 2 * 4 * 40);
    expect_nothing_left(&bench, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_readers_kazoos_and_ours_share() {
    let _turn = turn().await;
    let Some((bench, _)) = fleet(&[curator::availability, kazoo::availability]).await else { return };
    let ground = Ground::with_stay(Duration::from_millis(20)).unwrap();
    let mut theirs = vec![curators(&bench, Kind::Read).await, kazoos(&bench, Kind::MixedRead).await];
    let ours = ours(&bench, "", &[Ours::Read]);
    let lock = ours[0].0.rw_lock(PATH).unwrap();
    let reading = soon("the grant", lock.read()).await.unwrap();
    for Theirs { peer, kind } in &mut theirs {
        assert!(peer.lock(*kind, PATH, SOON).await.unwrap(), "readers of all clients hold it at one time");
    }
    assert!(lock.try_write().await.unwrap().is_none(), "there are readers");
    for Theirs { peer, kind } in &mut theirs {
        peer.release(*kind, PATH).await.unwrap();
    }
    reading.release().await.unwrap();
    let most = take_turns(&ground, PATH, theirs, ours, (4, 20)).await;
    assert!(most > 4, "readers of different clients meet, not {most} at most");
    expect_grants(&ground, 0, 3 * 4 * 20);
}
