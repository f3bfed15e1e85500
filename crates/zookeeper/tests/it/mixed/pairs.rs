//! The pairs of `docs/mixed-fleets.md`, one by one: one client holds, the other tries; then the other way round.
//!
//! The pairs that do not exclude each other are tried too: if one of them changes, the table must change.

use std::time::Duration;

use lockkeeper_conformance::{SOON, answered};
use lockkeeper_core::{BoxFuture, Result};
use lockkeeper_faults::Availability;
use lockkeeper_faults::peers::{Kind, Peer, curator, go, kazoo};
use lockkeeper_recipes::{Guard, Keeper};

use crate::support::Bench;

/// How long it must have been kept out: clients list and watch in a few milliseconds.
const KEPT_OUT: Duration = Duration::from_millis(300);

/// One column and row of the tables.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Client {
    Ours(What),
    OursAsKazoo(What),
    Curator(Kind),
    Kazoo(Kind),
    Go,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum What {
    Mutex,
    Read,
    Write,
}

/// A contender that can hold.
enum Contender {
    Ours { keeper: Keeper, what: What, held: Option<Release> },
    Peer { peer: Peer, kind: Kind },
}

/// Gives a lock back.
type Release = Box<dyn FnOnce() -> BoxFuture<Result<()>> + Send>;

fn held<Kind: 'static>(guard: Guard<Kind>) -> Release {
    Box::new(move || Box::pin(guard.release()))
}

impl Contender {
    async fn start(bench: &Bench, party: Client) -> Self {
        let ours = |settings, what| Self::Ours { keeper: bench.neighbour(settings).keeper, what, held: None };
        match party {
            Client::Ours(what) => ours("", what),
            Client::OursAsKazoo(what) => ours("?layout=kazoo", what),
            Client::Curator(kind) => Self::Peer { peer: bench.curator().await, kind },
            Client::Kazoo(kind) => Self::Peer { peer: bench.kazoo().await, kind },
            Client::Go => Self::Peer { peer: bench.go().await, kind: Kind::Mutex },
        }
    }

    /// Tries to take the lock for a while; tells whether it got it.
    async fn take(&mut self, path: &str, within: Duration) -> bool {
        match self {
            Self::Peer { peer, kind } => peer.lock(*kind, path, within).await.unwrap(),
            Self::Ours { keeper, what, held } => {
                *held = match what {
                    What::Mutex => {
                        let mutex = keeper.mutex(path).unwrap();
                        answered(async || mutex.lock_timeout(within).await).await.map(self::held)
                    }
                    What::Read => {
                        let lock = keeper.rw_lock(path).unwrap();
                        answered(async || lock.read_timeout(within).await).await.map(self::held)
                    }
                    What::Write => {
                        let lock = keeper.rw_lock(path).unwrap();
                        answered(async || lock.write_timeout(within).await).await.map(self::held)
                    }
                };
                held.is_some()
            }
        }
    }

    async fn release(&mut self, path: &str) {
        match self {
            Self::Peer { peer, kind } => peer.release(*kind, path).await.unwrap(),
            Self::Ours { held, .. } => held.take().expect("it is held")().await.unwrap(),
        }
    }
}

/// Whether the second is kept out for a while, or for as long as anything may take, while the first holds.
async fn keeps_out(
    bench: &Bench,
    first: &mut Contender,
    second: &mut Contender,
    path: &str,
    for_as_long_as: Duration,
) -> bool {
    assert!(first.take(path, SOON).await, "the first is granted a free lock");
    let came_in = second.take(path, for_as_long_as).await;
    first.release(path).await;
    if came_in {
        second.release(path).await;
    }
    // go-zookeeper cannot stop waiting: its node leaves when its turn has come.
    bench.until_nothing_left(path).await;
    !came_in
}

/// Tries each pair in both orders. `excludes` says what the table says of a pair: the one that holds, and the one that
/// tries.
async fn try_table(bench: &Bench, parties: &[Client], excludes: impl Fn(Client, Client) -> bool) {
    let mut wrong = Vec::new();
    let mut contenders = Vec::new();
    for &party in parties {
        contenders.push((party, Contender::start(bench, party).await, Contender::start(bench, party).await));
    }
    for holds in 0..parties.len() {
        for tries in 0..parties.len() {
            let path = format!("/pairs/{holds}-{tries}");
            let (holder, rival) = (parties[holds], parties[tries]);
            // One that is to come in may take its time.
            let tried_for = if excludes(holder, rival) { KEPT_OUT } else { SOON };
            let kept_out = if holds == tries {
                let (_, first, second) = &mut contenders[holds];
                keeps_out(bench, first, second, &path, tried_for).await
            } else {
                let [(_, first, _), (_, _, second)] = contenders.get_disjoint_mut([holds, tries]).expect("two of them");
                keeps_out(bench, first, second, &path, tried_for).await
            };
            if kept_out != excludes(holder, rival) {
                wrong.push(format!("{holder:?} holds, {rival:?} is kept out: {kept_out}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn mutexes_exclude_one_another_as_the_table_says() {
    let needed: [fn() -> Availability; 3] = [curator::availability, kazoo::availability, go::availability];
    let Some(bench) = Bench::beside(&needed).await else { return };
    let ours = Client::Ours(What::Mutex);
    let ours_as_kazoo = Client::OursAsKazoo(What::Mutex);
    let (curator, with_driver) = (Client::Curator(Kind::Mutex), Client::Curator(Kind::MixedMutex));
    let (kazoo, with_keyword) = (Client::Kazoo(Kind::Mutex), Client::Kazoo(Kind::MixedMutex));
    let has_kazoos_names = [ours_as_kazoo, kazoo, with_keyword];
    try_table(&bench, &[ours, ours_as_kazoo, curator, with_driver, kazoo, with_keyword], |holds, tries| {
        if tries == curator {
            // It takes kazoo's names for ones that come after its own.
            !has_kazoos_names.contains(&holds)
        } else if tries == kazoo {
            // It passes over all names but its own.
            has_kazoos_names.contains(&holds)
        } else {
            true
        }
    })
    .await;
    try_table(&bench, &[ours, curator, with_driver, Client::Go], |_, _| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_writers_exclude_one_another_as_the_table_says() {
    let Some(bench) = Bench::beside(&[curator::availability, kazoo::availability]).await else { return };
    let reads = |party| {
        matches!(
            party,
            Client::Ours(What::Read)
                | Client::OursAsKazoo(What::Read)
                | Client::Curator(Kind::Read)
                | Client::Kazoo(Kind::Read | Kind::MixedRead)
        )
    };
    let excludes = |holds, tries| !(reads(holds) && reads(tries));
    let ours = [Client::Ours(What::Read), Client::Ours(What::Write)];
    let curators = [Client::Curator(Kind::Read), Client::Curator(Kind::Write)];
    let kazoos = [Client::Kazoo(Kind::MixedRead), Client::Kazoo(Kind::MixedWrite)];
    let as_kazoo = [Client::OursAsKazoo(What::Read), Client::OursAsKazoo(What::Write)];
    let as_it_comes = [Client::Kazoo(Kind::Read), Client::Kazoo(Kind::Write)];
    for parties in [[ours, curators], [ours, kazoos], [as_kazoo, as_it_comes]] {
        try_table(&bench, parties.as_flattened(), excludes).await;
    }
    let is_kazoo = |client| matches!(client, Client::Kazoo(_));
    try_table(&bench, [curators, kazoos].as_flattened(), |holds, tries| {
        // Curator takes kazoo's names for ones that come after its own.
        let is_seen = is_kazoo(tries) || !is_kazoo(holds);
        is_seen && excludes(holds, tries)
    })
    .await;
}
