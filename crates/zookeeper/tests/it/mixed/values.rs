//! Barriers and counters that real Curator shares with ours on one path; and kazoo's way of setting a barrier.

use std::time::Duration;

use lockkeeper_conformance::{SOON, answered, soon, until};
use lockkeeper_core::Wait;
use lockkeeper_faults::peers::{Kind, Peer, SharedCount, curator, kazoo};
use lockkeeper_recipes::{Barrier, SharedCounter};
use lockkeeper_zookeeper::NewNode;

use crate::support::{Bench, Make};

/// How long a wait in vain goes on: clients look and watch in a few milliseconds.
const IN_VAIN: Duration = Duration::from_millis(300);

const PATH: &str = "/values/one";

async fn with_curator() -> Option<(Bench, Peer)> {
    let bench = Bench::beside(&[curator::availability]).await?;
    let peer = bench.curator().await;
    Some((bench, peer))
}

fn barrier(bench: &Bench) -> Barrier {
    bench.neighbour("").keeper.barrier(PATH).unwrap()
}

fn counter(bench: &Bench) -> SharedCounter {
    bench.neighbour("").keeper.shared_counter(PATH).unwrap()
}

/// Waits until the node of `PATH` is watched.
async fn until_watched(bench: &Bench, count: usize) {
    until("the watches", async || bench.watchers(PATH).await >= count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_that_ours_or_curator_sets_keeps_both_until_either_removes_it() {
    let Some((bench, mut curator)) = with_curator().await else { return };
    let (ours, waiter) = (barrier(&bench), barrier(&bench));
    for (set_by_curator, removed_by_curator) in [(false, false), (false, true), (true, true), (true, false)] {
        assert!(curator.wait_on_barrier(PATH, SOON).await.unwrap(), "it is not set");
        match set_by_curator {
            true => curator.set_barrier(PATH).await.unwrap(),
            false => ours.set().await.unwrap(),
        }
        assert!(!curator.wait_on_barrier(PATH, IN_VAIN).await.unwrap());
        assert!(answered(async || waiter.wait_within(Wait::AtMost(IN_VAIN)).await).await.is_none());
        ours.set().await.expect("setting it again changes nothing");
        let going_on = waiter.wait_within(Wait::AtMost(SOON));
        if removed_by_curator {
            let (gone_on, ()) = tokio::join!(going_on, async {
                until_watched(&bench, 1).await;
                curator.remove_barrier(PATH).await.unwrap();
            });
            assert!(gone_on.unwrap().is_some());
        } else {
            let (theirs, gone_on, ()) = tokio::join!(curator.wait_on_barrier(PATH, SOON), going_on, async {
                until_watched(&bench, 2).await;
                ours.remove().await.unwrap();
            });
            assert!(theirs.unwrap() && gone_on.unwrap().is_some());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_data_is_a_barrier_as_kazoo_sets_it_and_is_deleted_with_it() {
    let Some(bench) = Bench::start(Make::Apache).await else { return };
    let (ours, operator) = (barrier(&bench), bench.operator().await);
    operator.create(NewNode::persistent("/values")).await.unwrap();
    for sets_it_again in [false, true] {
        operator.create(NewNode::persistent(PATH)).await.unwrap();
        assert!(answered(async || ours.wait_within(Wait::AtMost(IN_VAIN)).await).await.is_none());
        if sets_it_again {
            ours.set().await.unwrap();
            let (data, stat) = operator.get_data(PATH).await.unwrap();
            assert_eq!((&data[..], stat.version), (&b""[..], 0), "who waits for it sees no change");
        }
        let (gone_on, ()) = tokio::join!(ours.wait_within(Wait::AtMost(SOON)), async {
            until_watched(&bench, 1).await;
            ours.remove().await.unwrap();
        });
        assert!(gone_on.unwrap().is_some());
        assert_eq!(operator.exists(PATH).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_queues_leave_behind_is_no_barrier() {
    let Some(bench) = Bench::beside(&[curator::availability, kazoo::availability]).await else { return };
    let (ours, operator) = (barrier(&bench), bench.operator().await);
    for mut peer in [bench.curator().await, bench.kazoo().await] {
        assert!(peer.lock(Kind::MixedMutex, PATH, SOON).await.unwrap());
        assert!(ours.wait_within(Wait::AtMost(SOON)).await.unwrap().is_some(), "a lock in use is none");
        peer.release(Kind::MixedMutex, PATH).await.unwrap();
        assert!(operator.exists(PATH).await.unwrap().is_some(), "it is left behind");
        assert!(ours.wait_within(Wait::AtMost(SOON)).await.unwrap().is_some());
        ours.remove().await.unwrap();
        operator.delete(PATH, None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_is_seen_set_and_watched_by_curator_and_ours_alike() {
    let Some((bench, mut curator)) = with_curator().await else { return };
    let ours = counter(&bench);
    let unset = ours.get().await.unwrap();
    assert_eq!((unset.number(), unset.version()), (0, None));
    let seen = ours.compare_and_set(unset, -7).await.unwrap().expect("no other client has set it");
    assert_eq!(curator.shared_count(PATH).await.unwrap(), SharedCount { value: -7, version: 0 });

    // Theirs is told to ours, and makes what ours saw stale.
    let (changed, ()) = tokio::join!(soon("their change", ours.changed(seen)), async {
        until_watched(&bench, 2).await;
        curator.set_shared_count(PATH, i32::MAX).await.unwrap();
    });
    let changed = changed.unwrap();
    assert_eq!(changed.number(), i32::MAX);
    assert_eq!(ours.compare_and_set(seen, 1).await.unwrap(), None);

    // And the other way round.
    assert_eq!(curator.shared_count(PATH).await.unwrap().value, i32::MAX);
    let now = ours.compare_and_set(changed, 12).await.unwrap().expect("it is as it was seen");
    assert!(curator.shared_count_changed(PATH, SOON).await.unwrap());
    let told = curator.shared_count(PATH).await.unwrap();
    assert_eq!(told.value, 12);
    ours.set(13).await.unwrap();
    assert!(!curator.try_set_shared_count(PATH, 14).await.unwrap(), "theirs is stale");
    assert!(curator.shared_count_changed(PATH, SOON).await.unwrap());
    assert_eq!(curator.shared_count(PATH).await.unwrap().value, 13);
    assert!(curator.try_set_shared_count(PATH, 14).await.unwrap());
    assert_eq!(ours.compare_and_set(now, 15).await.unwrap(), None);
    assert_eq!(ours.get().await.unwrap().number(), 14);
}

/// Nothing is lost when both count one number up by comparing.
#[tokio::test(flavor = "multi_thread")]
async fn counting_up_with_curator_loses_nothing() {
    const EACH: i32 = 40;
    let Some((bench, mut curator)) = with_curator().await else { return };
    let ours = counter(&bench);
    curator.set_shared_count(PATH, 0).await.unwrap();
    let theirs = async {
        for _ in 0..EACH {
            loop {
                let seen = curator.shared_count(PATH).await.unwrap();
                if curator.try_set_shared_count(PATH, seen.value + 1).await.unwrap() {
                    break;
                }
                // A refusal does not tell Curator the number: its watch does.
                curator.shared_count_changed(PATH, IN_VAIN).await.unwrap();
            }
        }
    };
    let mine = async {
        for _ in 0..EACH {
            loop {
                let seen = ours.get().await.unwrap();
                if ours.compare_and_set(seen, seen.number() + 1).await.unwrap().is_some() {
                    break;
                }
            }
        }
    };
    soon("the counting", async { tokio::join!(theirs, mine) }).await;
    assert_eq!(ours.get().await.unwrap().number(), 2 * EACH);
}
