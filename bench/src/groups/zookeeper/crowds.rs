//! Many tasks of one process beside as many of Curator's threads.

use std::time::Duration;

use lockkeeper::{Handoff, Keeper};
use lockkeeper_faults::Availability;
use lockkeeper_faults::peers::{Peer, Sharing, TimedCrowd};
use lockkeeper_faults::redis::{self, Server as Redis};

use super::ground::Ground;
use crate::groups::ours::Bench;
use crate::groups::ours::{self, CROWD};
use crate::load::Outcome;
use crate::load::{Crowd, CrowdGrants};
use crate::peers::redis as redis_locks;
use crate::report::rows::APACHE;
use crate::report::{Group, Plot};

/// How long each contends in one round; in a round for the plot alone.
const TIME: Duration = Duration::from_millis(700);
const PLOT_TIME: Duration = Duration::from_millis(300);

/// Sizes of crowds in the plot, beside that of the rows.
const SIZES: [usize; 3] = [1, 4, 128];

/// How many connections want the key of Redis: one for each task.
const CONNECTIONS: u32 = CROWD as u32;

/// Who takes a turn.
const EACH: usize = 0;
const SHARED: usize = 1;
const OWN: usize = 2;
const STRICT: usize = 3;
const LOCAL: usize = 4;
const OUR_OWN: usize = 5;
const REDIS: usize = 6;

pub(super) async fn measure(ground: &mut Ground, bench: &mut Bench) -> Outcome<()> {
    let keeper = lockkeeper::connect(&*ground.url())?;
    let redis = match redis::availability() {
        Availability::Present => Some(Redis::standalone().await?),
        Availability::Missing(why) => {
            bench.record.peer_missing(Group::ZooKeeper, ground.name, "Redis", &why);
            None
        }
    };
    let time = bench.effort.time(TIME);
    for _ in 0..bench.effort.rounds() {
        let crowd = async |number| {
            let crowd = match (number, ground.curator.as_mut(), &redis) {
                (EACH, Some(peer), _) => theirs(peer, Sharing::Each, CROWD, time).await,
                (SHARED, Some(peer), _) => theirs(peer, Sharing::Shared, CROWD, time).await,
                (OWN, Some(peer), _) => theirs(peer, Sharing::Own, CROWD, time).await,
                (STRICT, ..) => ours::crowd(&keeper, "crowd", Handoff::Strict, CROWD, time).await,
                (LOCAL, ..) => ours::crowd(&keeper, "crowd", Handoff::local(), CROWD, time).await,
                (OUR_OWN, ..) => own(&keeper, time).await,
                (REDIS, _, Some(redis)) => redis_locks::crowd(redis.address(), "crowd", CONNECTIONS, time).await,
                _ => return Ok(None),
            };
            crowd.map(Some)
        };
        let crowds = bench.turns.each(crowd).await?;
        note(ground, &crowds, bench);
    }
    if ground.name == APACHE {
        for _ in 0..bench.effort.rounds() {
            plot(&keeper, ground, bench).await?;
        }
    }
    Ok(keeper.close().await?)
}

fn note(ground: &Ground, crowds: &[Option<CrowdGrants>; 7], bench: &mut Bench) {
    let rate = |number: usize| crowds[number].as_ref().map(CrowdGrants::per_second);
    let mut shelf = bench.shelf(Group::ZooKeeper, ground.name);
    let pairs = [
        ("crowd-each", STRICT, EACH),
        ("crowd-shared", STRICT, SHARED),
        ("crowd-own", OUR_OWN, OWN),
        ("local-curator", LOCAL, EACH),
        ("local-redis", LOCAL, REDIS),
    ];
    for (id, ours, peer) in pairs {
        if let (Some(ours), Some(peer)) = (rate(ours), rate(peer)) {
            shelf.beside(id, ours, peer);
        }
    }
    if let Some(local) = &crowds[LOCAL] {
        shelf.ours("local-rate", local.per_second());
        shelf.ours("fairness", local.least_of_most());
    }
    if ground.name == APACHE {
        for (name, number) in [("Strict", STRICT), ("Local", LOCAL), ("Curator", EACH)] {
            if let Some(rate) = rate(number) {
                shelf.point(Plot::ThroughputZooKeeper, name, CONNECTIONS, rate);
            }
        }
    }
}

async fn plot(keeper: &Keeper, ground: &mut Ground, bench: &mut Bench) -> Outcome<()> {
    let time = bench.effort.time(PLOT_TIME);
    for tasks in SIZES {
        let x = u32::try_from(tasks).unwrap_or(u32::MAX);
        for (name, handoff) in [("Strict", Handoff::Strict), ("Local", Handoff::local())] {
            let crowd = ours::crowd(keeper, "crowd", handoff, tasks, time).await?;
            let mut shelf = bench.shelf(Group::ZooKeeper, ground.name);
            shelf.point(Plot::ThroughputZooKeeper, name, x, crowd.per_second());
        }
        if let Some(peer) = &mut ground.curator {
            let crowd = theirs(peer, Sharing::Each, tasks, time).await?;
            let mut shelf = bench.shelf(Group::ZooKeeper, ground.name);
            shelf.point(Plot::ThroughputZooKeeper, "Curator", x, crowd.per_second());
        }
    }
    Ok(())
}

/// A lock for each task.
async fn own(keeper: &Keeper, time: Duration) -> Outcome<CrowdGrants> {
    let mut mutexes = Vec::new();
    for number in 0..CROWD {
        let mutex = keeper.mutex(&format!("own {number}"))?;
        // Makes the queue.
        ours::lock_and_release(&mutex).await?;
        mutexes.push(mutex);
    }
    let mut crowd = Crowd::new();
    for mutex in mutexes {
        crowd.add(move || {
            let mutex = mutex.clone();
            async move { ours::lock_and_release(&mutex).await }
        });
    }
    crowd.end_after(time).await
}

async fn theirs(peer: &mut Peer, sharing: Sharing, threads: usize, time: Duration) -> Outcome<CrowdGrants> {
    let TimedCrowd { took, grants } = peer.time_crowd("/bench/curator-crowd", sharing, threads, time).await?;
    Ok(CrowdGrants::new(grants, took))
}
