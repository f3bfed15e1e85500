//! Nothing is left behind: after a wait that ended in any way there is no node and no watch, by the server's count.

use std::any::Any;
use std::time::Duration;

use lockkeeper_conformance::{SOON, answered, until};
use lockkeeper_core::{Result, Wait};
use lockkeeper_recipes::Keeper;
use tokio::task::JoinSet;

use super::SERVER;
use crate::support::Bench;

const LOCK: &str = "left";

/// Long enough to join and to set every watch, short enough to wait for.
const WAIT: Duration = Duration::from_millis(200);

/// The pause between two looks at the server's counts.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// What is asked for, and so what must be waited for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Mutex,
    Read,
    Write,
    Permit,
    /// Another waits for permits before us.
    PermitBehindAnother,
    Permits,
    Leadership,
}

const ALL: [Asked; 7] = [
    Asked::Mutex,
    Asked::Read,
    Asked::Write,
    Asked::Permit,
    Asked::PermitBehindAnother,
    Asked::Permits,
    Asked::Leadership,
];

/// What keeps others waiting while it lives.
type InTheWay = Box<dyn Any + Send>;

impl Asked {
    async fn block(self, keeper: &Keeper) -> InTheWay {
        match self {
            Self::Mutex => Box::new(keeper.mutex(LOCK).unwrap().lock().await.unwrap()),
            Self::Read => Box::new(keeper.rw_lock(LOCK).unwrap().write().await.unwrap()),
            Self::Write => Box::new(keeper.rw_lock(LOCK).unwrap().read().await.unwrap()),
            Self::Permit | Self::Permits => Box::new(keeper.semaphore(LOCK, 3).unwrap().acquire_many(3).await.unwrap()),
            Self::PermitBehindAnother => {
                let semaphore = keeper.semaphore(LOCK, 3).unwrap();
                let held = semaphore.acquire_many(3).await.unwrap();
                let mut waits = JoinSet::new();
                waits.spawn(async move { drop(semaphore.acquire().await) });
                until("another waits for permits", async || keeper.contenders(LOCK).await.unwrap().len() == 4).await;
                Box::new((held, waits))
            }
            Self::Leadership => Box::new(keeper.election(LOCK).unwrap().campaign().await.unwrap()),
        }
    }

    /// How many nodes stand in the way, and how many watches their client sets: one on each of its own nodes and, among
    /// the waiters, one on the permits. A client that took permits leaves the waiters at some later time.
    const fn in_the_way(self) -> (usize, u64) {
        match self {
            Self::Mutex | Self::Read | Self::Write | Self::Leadership => (1, 1),
            Self::Permit | Self::Permits => (3, 3),
            Self::PermitBehindAnother => (4, 5),
        }
    }

    /// Asks for it, for at most this time; tells whether it was granted.
    async fn ask(self, keeper: &Keeper, within: Duration) -> Result<bool> {
        let semaphore = || keeper.semaphore(LOCK, 3);
        match self {
            Self::Mutex => keeper.mutex(LOCK)?.lock_timeout(within).await.map(|held| held.is_some()),
            Self::Read => keeper.rw_lock(LOCK)?.read_timeout(within).await.map(|held| held.is_some()),
            Self::Write => keeper.rw_lock(LOCK)?.write_timeout(within).await.map(|held| held.is_some()),
            Self::Permit | Self::PermitBehindAnother => {
                semaphore()?.acquire_timeout(within).await.map(|held| held.is_some())
            }
            Self::Permits => semaphore()?.acquire_many_within(2, Wait::AtMost(within)).await.map(|held| held.is_some()),
            Self::Leadership => {
                keeper.election(LOCK)?.campaign_within(Wait::AtMost(within)).await.map(|held| held.is_some())
            }
        }
    }
}

struct Scene {
    bench: Bench,
    ann: Keeper,
    bob: Keeper,
}

impl Scene {
    /// None if the test is skipped.
    async fn set() -> Option<Self> {
        let bench = Bench::alone(SERVER).await?;
        // No session is to end because the machine is busy: its waiter would join again.
        let settings = "?session_timeout=40s";
        let (ann, bob) = (bench.party(settings).keeper, bench.neighbour(settings).keeper);
        Some(Self { bench, ann, bob })
    }

    /// How many nodes and watches there are when there is only the contender in the way.
    async fn counts(&self) -> (usize, u64) {
        (self.bench.ephemerals().await.len(), self.bench.server.watches().await)
    }

    /// Puts what is asked for out of reach, and waits until its holder has set all its watches.
    async fn block(&self, asked: Asked) -> InTheWay {
        let in_the_way = asked.block(&self.bob).await;
        self.expect_nothing_left(asked).await;
        in_the_way
    }

    /// Waits once until the time is up. What a busy server did not answer in that time is asked again.
    async fn ask_in_vain(&self, asked: Asked) {
        assert!(!answered(async || asked.ask(&self.ann, WAIT).await).await, "{asked:?}");
    }

    /// Waits until there are the nodes and watches of the contender in the way, and no others.
    async fn expect_nothing_left(&self, asked: Asked) {
        let expected = asked.in_the_way();
        let mut counts = (0, 0);
        let looking = async {
            while counts != expected {
                tokio::time::sleep(BETWEEN_LOOKS).await;
                counts = self.counts().await;
            }
        };
        // What there is instead is told below.
        let _ = tokio::time::timeout(SOON, looking).await;
        assert_eq!(counts, expected, "nodes and watches beside what {asked:?} waits for");
    }

    async fn expect_emptiness(&self, asked: Asked) {
        until(&format!("nothing at all is left of {asked:?}"), async || self.counts().await == (0, 0)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_times_out_or_is_dropped_leaves_no_node_and_no_watch() {
    let Some(scene) = Scene::set().await else { return };
    // The waits are short: they are for a lock, and not for the session to open.
    scene.ann.mutex(LOCK).unwrap().lock().await.unwrap().release().await.unwrap();
    for asked in ALL {
        let in_the_way = scene.block(asked).await;
        for _ in 0..3 {
            scene.ask_in_vain(asked).await;
        }
        for millis in [0, 1, 2, 5, 20, 100] {
            let dropped = tokio::time::timeout(Duration::from_millis(millis), asked.ask(&scene.ann, SOON)).await;
            assert!(dropped.is_err(), "{asked:?}");
        }
        scene.expect_nothing_left(asked).await;
        drop(in_the_way);
        scene.expect_emptiness(asked).await;
    }
}
