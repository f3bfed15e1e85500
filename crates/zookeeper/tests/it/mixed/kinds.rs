//! Mixed fleets of every kind of lock: real Curator, kazoo and go-zookeeper take turns with ours, for thousands of
//! grants, on a ground where two that must not meet are certainly seen.
//!
//! Which pairs exclude each other, and what each must be told, is the table of `docs/mixed-fleets.md`; `pairs`
//! tries it pair by pair.

use lockkeeper_faults::peers::{Kind, curator, kazoo};
use lockkeeper_recipes::Permits;

use crate::support::turns::{
    Ours, curators, expect_grants, expect_nothing_left, fleet, fleet_with_go, gos, kazoos, ours, take_turns, visit,
};

/// A name that starts with a slash is a node's path.
const PATH: &str = "/fleet/lock";

#[tokio::test(flavor = "multi_thread")]
async fn curator_go_zookeeper_and_ours_share_a_mutex_as_they_come() {
    let Some((bench, ground)) = fleet_with_go(&[curator::availability]).await else { return };
    let theirs = vec![curators(&bench, Kind::Mutex).await, gos(&bench).await];
    let ours = ours(&bench, "", &[Ours::Mutex, Ours::Mutex]);
    // Four clients with four contenders each.
    let most = take_turns(&ground, PATH, theirs, ours, (4, 100)).await;
    assert_eq!(most, 1);
    expect_grants(&ground, 4 * 4 * 100, 0);
    assert_eq!(ground.overtaken().unwrap(), []);
    expect_nothing_left(&bench, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_go_zookeeper_kazoo_with_curators_names_and_ours_share_a_mutex() {
    let Some((bench, ground)) = fleet_with_go(&[curator::availability, kazoo::availability]).await else { return };
    let theirs =
        vec![curators(&bench, Kind::Mutex).await, gos(&bench).await, kazoos(&bench, Kind::CuratorNamedMutex).await];
    let ours = ours(&bench, "", &[Ours::Mutex]);
    let most = take_turns(&ground, PATH, theirs, ours, (4, 125)).await;
    assert_eq!(most, 1);
    expect_grants(&ground, 4 * 4 * 125, 0);
    assert_eq!(ground.overtaken().unwrap(), []);
    expect_nothing_left(&bench, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_kazoo_told_of_each_other_share_a_mutex_with_ours_in_either_layout() {
    let Some((bench, ground)) = fleet(&[curator::availability, kazoo::availability]).await else { return };
    let theirs = vec![curators(&bench, Kind::MixedMutex).await, kazoos(&bench, Kind::MixedMutex).await];
    let mut ours_of_both = ours(&bench, "", &[Ours::Mutex]);
    ours_of_both.extend(ours(&bench, "?layout=kazoo", &[Ours::Mutex]));
    let most = take_turns(&ground, PATH, theirs, ours_of_both, (4, 75)).await;
    assert_eq!(most, 1);
    expect_grants(&ground, 4 * 4 * 75, 0);
    assert_eq!(ground.overtaken().unwrap(), []);
    expect_nothing_left(&bench, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_ours_share_a_read_write_lock() {
    let Some((bench, ground)) = fleet(&[curator::availability]).await else { return };
    let theirs = vec![curators(&bench, Kind::Read).await, curators(&bench, Kind::Write).await];
    let ours = ours(&bench, "", &[Ours::Read, Ours::Write]);
    take_turns(&ground, PATH, theirs, ours, (3, 80)).await;
    expect_grants(&ground, 2 * 3 * 80, 2 * 3 * 80);
    assert_eq!(ground.overtaken().unwrap(), []);
    expect_nothing_left(&bench, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_told_of_our_names_and_ours_share_a_read_write_lock() {
    let Some((bench, ground)) = fleet(&[kazoo::availability]).await else { return };
    let theirs = vec![kazoos(&bench, Kind::MixedRead).await, kazoos(&bench, Kind::MixedWrite).await];
    let ours = ours(&bench, "", &[Ours::Read, Ours::Write]);
    take_turns(&ground, PATH, theirs, ours, (3, 60)).await;
    expect_grants(&ground, 2 * 3 * 60, 2 * 3 * 60);
    expect_nothing_left(&bench, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_as_it_comes_and_ours_in_its_layout_share_a_read_write_lock() {
    let Some((bench, ground)) = fleet(&[kazoo::availability]).await else { return };
    let theirs = vec![kazoos(&bench, Kind::Read).await, kazoos(&bench, Kind::Write).await];
    let ours = ours(&bench, "?layout=kazoo", &[Ours::Read, Ours::Write]);
    take_turns(&ground, PATH, theirs, ours, (3, 60)).await;
    expect_grants(&ground, 2 * 3 * 60, 2 * 3 * 60);
    expect_nothing_left(&bench, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_semaphore_mutex_is_our_semaphore_of_one_permit() {
    let Some((bench, ground)) = fleet(&[curator::availability]).await else { return };
    let theirs = vec![curators(&bench, Kind::SemaphoreMutex).await];
    let ours = ours(&bench, "", &[Ours::Semaphore(Permits::Fixed(1))]);
    // A peer visits the ground as its kind does: Curator's semaphore mutex as a writer, our permit as a permit.
    let most = take_turns(&ground, PATH, theirs, ours, (4, 60)).await;
    assert_eq!(most, 1);
    expect_nothing_left(&bench, PATH).await;
}

/// In a queue that readers and writers join by turns, no two readers need ever meet; so readers alone must.
/// The proof that the ground tells: contenders on two paths are no fleet.
#[tokio::test(flavor = "multi_thread")]
async fn contenders_that_share_no_lock_are_seen_to_meet() {
    let Some((bench, ground)) = fleet(&[]).await else { return };
    let mut tasks = tokio::task::JoinSet::new();
    for (who, path) in ["/one", "/two"].into_iter().enumerate() {
        let (keeper, ground) = (bench.neighbour("").keeper, ground.clone());
        tasks.spawn(async move {
            for _ in 0..50 {
                visit(&keeper, path, &Ours::Mutex, &ground, &who.to_string()).await;
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    assert_ne!(ground.faults().unwrap(), [""; 0]);
}
