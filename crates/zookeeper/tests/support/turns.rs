//! Contenders of several clients that take turns on a ground, where two that must not meet are certainly seen.

use std::time::Duration;

use lockkeeper_conformance::until;
use lockkeeper_faults::Availability;
use lockkeeper_faults::peers::{Ground, Kind, Mode, Peer, curator, go, kazoo};
use lockkeeper_recipes::{Keeper, Permits};

use super::server::can_run;
use super::{Bench, Make};

const PEER_SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// How long the turns may take: there are no long waits in them, but a slow machine.
const TURNS_TIME_MAX: Duration = Duration::from_secs(300);

/// How many contenders of each client there are, and how often each takes the lock.
pub(crate) type Turns = (u32, u32);

/// One of a peer's sessions, and what it contends for.
pub(crate) struct Theirs {
    pub(crate) peer: Peer,
    pub(crate) kind: Kind,
}

/// What ours contend for.
#[derive(Clone, Debug)]
pub(crate) enum Ours {
    Mutex,
    Read,
    Write,
    Semaphore(Permits),
}

/// None if the test is skipped.
pub(crate) async fn fleet(needed: &[fn() -> Availability]) -> Option<(Bench, Ground)> {
    if !can_run(all(needed)) {
        return None;
    }
    Some((Bench::start(Make::Apache).await?, Ground::new().unwrap()))
}

/// The same for a fleet with go-zookeeper, which cannot be told to stay below a node.
pub(crate) async fn fleet_with_go(needed: &[fn() -> Availability]) -> Option<(Bench, Ground)> {
    if !can_run(all(needed).and(go::availability)) {
        return None;
    }
    Some((Bench::alone(Make::Apache).await?, Ground::new().unwrap()))
}

fn all(needed: &[fn() -> Availability]) -> Availability {
    needed.iter().fold(Availability::Present, |all, one| all.and(one))
}

pub(crate) async fn curators(bench: &Bench, kind: Kind) -> Theirs {
    Theirs { peer: curator::start(&bench.servers(), PEER_SESSION_TIMEOUT).await.unwrap(), kind }
}

pub(crate) async fn kazoos(bench: &Bench, kind: Kind) -> Theirs {
    Theirs { peer: kazoo::start(&bench.servers(), PEER_SESSION_TIMEOUT).await.unwrap(), kind }
}

pub(crate) async fn gos(bench: &Bench) -> Theirs {
    Theirs { peer: go::start(&bench.servers(), PEER_SESSION_TIMEOUT).await.unwrap(), kind: Kind::Mutex }
}

/// Has all contenders take their turns at once; returns the most that any of them met inside.
pub(crate) async fn take_turns(
    ground: &Ground,
    path: &'static str,
    theirs: Vec<Theirs>,
    ours: Vec<(Keeper, Ours)>,
    turns: Turns,
) -> usize {
    let (contenders, rounds) = turns;
    let mut tasks = tokio::task::JoinSet::new();
    for Theirs { mut peer, kind } in theirs {
        let ground = ground.clone();
        tasks.spawn(async move { peer.take_turns(kind, path, &ground, turns, TURNS_TIME_MAX).await.unwrap() });
    }
    for (number, (keeper, kind)) in ours.into_iter().enumerate() {
        for contender in 0..contenders {
            let (keeper, kind, ground) = (keeper.clone(), kind.clone(), ground.clone());
            let who = format!("{number}-{contender}");
            tasks.spawn(async move {
                let mut most = 0;
                for _ in 0..rounds {
                    most = most.max(visit(&keeper, path, &kind, &ground, &who).await);
                }
                most
            });
        }
    }
    let mut most = 0;
    while let Some(met) = tokio::time::timeout(TURNS_TIME_MAX, tasks.join_next()).await.expect("in time") {
        most = most.max(met.expect("no panic"));
    }
    assert_eq!(ground.faults().unwrap(), [""; 0], "none met inside");
    assert_eq!(ground.inside().unwrap(), [""; 0]);
    most
}

/// One turn of ours.
pub(crate) async fn visit(keeper: &Keeper, path: &str, ours: &Ours, ground: &Ground, who: &str) -> usize {
    match ours {
        Ours::Mutex => {
            let guard = keeper.mutex(path).unwrap().lock().await.unwrap();
            let met = ground.visit(Mode::Write, who, guard.hold().contender().as_str()).await.unwrap();
            guard.release().await.unwrap();
            met
        }
        Ours::Write => {
            let guard = keeper.rw_lock(path).unwrap().write().await.unwrap();
            let met = ground.visit(Mode::Write, who, guard.hold().contender().as_str()).await.unwrap();
            guard.release().await.unwrap();
            met
        }
        Ours::Read => {
            let guard = keeper.rw_lock(path).unwrap().read().await.unwrap();
            let met = ground.visit(Mode::Read, who, guard.hold().contender().as_str()).await.unwrap();
            guard.release().await.unwrap();
            met
        }
        Ours::Semaphore(permits) => {
            let permit = keeper.semaphore(path, permits.clone()).unwrap().acquire().await.unwrap();
            let met = ground.visit(Mode::Permit, who, permit.hold().contender().as_str()).await.unwrap();
            permit.release().await.unwrap();
            met
        }
    }
}

pub(crate) fn ours(bench: &Bench, settings: &str, kinds: &[Ours]) -> Vec<(Keeper, Ours)> {
    kinds.iter().map(|kind| (bench.neighbour(settings).keeper, kind.clone())).collect()
}

/// Every writer has counted the number up by one, and every grant was written down.
pub(crate) fn expect_grants(ground: &Ground, writers: u64, others: u64) {
    assert_eq!(ground.number().unwrap(), writers);
    assert_eq!(ground.grants().unwrap().len() as u64, writers + others);
}

/// No node of any client is left in the queue.
pub(crate) async fn expect_nothing_left(bench: &Bench, path: &str) {
    until("no contender is left", async || bench.ephemerals_under(path).await == 0).await;
}
