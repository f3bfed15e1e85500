//! Contenders of several clients that take turns on a ground, where two that must not meet are certainly seen.

use std::time::Duration;

use lockkeeper_faults::peers::{Ground, Kind, Mode, Peer, curator, go, kazoo};
use lockkeeper_recipes::{Guard, Keeper, Permits};

use super::Bench;

/// How long the turns may take: there are no long waits in them, but a slow machine.
const TURNS_TIME_MAX: Duration = Duration::from_secs(300);

/// How many contenders of each client there are, and how often each takes the lock.
pub(crate) type Turns = (u32, u32);

/// One of a peer's sessions, and what it contends for.
pub(crate) type Theirs = (Peer, Kind);

/// A client of another library, and what it contends for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Other {
    Curator(Kind),
    Kazoo(Kind),
    Go,
}

/// What ours contend for.
#[derive(Clone, Debug)]
pub(crate) enum Ours {
    Mutex,
    Read,
    Write,
    Semaphore(Permits),
    Lead,
}

impl Other {
    pub(crate) async fn start(self, bench: &Bench) -> Theirs {
        match self {
            Self::Curator(kind) => (bench.curator().await, kind),
            Self::Kazoo(kind) => (bench.kazoo().await, kind),
            Self::Go => (bench.go().await, Kind::Mutex),
        }
    }
}

/// A bench for these, if they are all there; else the test is skipped.
pub(crate) async fn bench_with(others: &[Other]) -> Option<Bench> {
    let availability = |other: &Other| match other {
        Other::Curator(_) => curator::availability,
        Other::Kazoo(_) => kazoo::availability,
        Other::Go => go::availability,
    };
    Bench::beside(&others.iter().map(availability).collect::<Vec<_>>()).await
}

pub(crate) async fn start_all(bench: &Bench, others: &[Other]) -> Vec<Theirs> {
    let mut theirs = Vec::new();
    for other in others {
        theirs.push(other.start(bench).await);
    }
    theirs
}

/// Keepers with these settings, and what each contends for.
pub(crate) fn keepers(bench: &Bench, ours: &[(&str, Ours)]) -> Vec<(Keeper, Ours)> {
    ours.iter().map(|(settings, what)| (bench.neighbour(settings).keeper, what.clone())).collect()
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
    for (mut peer, kind) in theirs {
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
    most
}

/// One turn of ours; returns how many are met inside.
async fn visit(keeper: &Keeper, path: &str, ours: &Ours, ground: &Ground, who: &str) -> usize {
    match ours {
        Ours::Mutex => inside(keeper.mutex(path).unwrap().lock().await.unwrap(), Mode::Write, ground, who).await,
        Ours::Write => inside(keeper.rw_lock(path).unwrap().write().await.unwrap(), Mode::Write, ground, who).await,
        Ours::Read => inside(keeper.rw_lock(path).unwrap().read().await.unwrap(), Mode::Read, ground, who).await,
        Ours::Lead => inside(keeper.election(path).unwrap().campaign().await.unwrap(), Mode::Write, ground, who).await,
        Ours::Semaphore(permits) => {
            let permit = keeper.semaphore(path, permits.clone()).unwrap().acquire().await.unwrap();
            inside(permit, Mode::Permit, ground, who).await
        }
    }
}

async fn inside<Kind: 'static>(guard: Guard<Kind>, mode: Mode, ground: &Ground, who: &str) -> usize {
    let met = ground.visit(mode, who, guard.hold().contender().as_str()).await.unwrap();
    assert!(guard.hold().is_held());
    guard.release().await.unwrap();
    met
}

/// No two met that must not; every writer has counted the number up by one, and every grant was written down.
pub(crate) fn expect_grants(ground: &Ground, writers: u64, others: u64) {
    assert_eq!(ground.faults().unwrap(), [""; 0], "none met inside");
    assert_eq!(ground.inside().unwrap(), [""; 0]);
    assert_eq!(ground.number().unwrap(), writers);
    assert_eq!(ground.grants().unwrap().len() as u64, writers + others);
}
