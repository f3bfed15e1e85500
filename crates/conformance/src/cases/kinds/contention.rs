//! Random contention, by seed: the history is always right.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind, LossReason, Modes};
use lockkeeper_recipes::Keeper;
use tokio::task::{JoinSet, yield_now};

use crate::asking::{Held, Kind, PERMITS, Until, ask};
use crate::case::{Case, using};
use crate::fixture::{Client, Fault, FaultKind, Fixture};
use crate::history::{History, Limits, What, check};
use crate::lateness::SleepersClock;
use crate::random::Random;
use crate::tap::{Pace, Tap};
use crate::waiting::{SOON, soon};

const KEEPERS: u32 = 3;
const TASKS_PER_KEEPER: u32 = 3;
const ROUNDS: u32 = 40;
const EXPIRIES: u64 = 12;

/// A mutex is the exclusive side of the read/write lock of its name.
const ONE_LOCK: &[Kind] = &[Kind::Mutex, Kind::ReadWrite];

/// The longest time for which a lock may be free while a contender waits, as a thread counts it that only sleeps.
const HAND_OFF_MAX: Duration = Duration::from_secs(5);

const CALM: &str = "the history of contenders that act at random is right";
const STORMY: &str = "the history of contenders that act at random is right while sessions expire";
const CALM_BOOK: &str = "the history of readers and writers that act at random is right";
const STORMY_BOOK: &str = "the history of readers and writers that act at random is right while sessions expire";
const CALM_MIX: &str = "the history of mutexes, readers and writers of one name at random is right";
const STORMY_MIX: &str =
    "the history of mutexes, readers and writers of one name at random is right while sessions expire";
const CALM_POOL: &str = "the history of contenders for permits that act at random is right";
const STORMY_POOL: &str = "the history of contenders for permits that act at random is right while sessions expire";

pub(super) fn cases() -> Vec<Case> {
    let expiring = |case: Case| case.needs(&[FaultKind::ExpireSession]);
    let of_mutexes = vec![
        Case::new(CALM, async |fixture| contend(fixture, &[Kind::Mutex], CALM, 0).await),
        expiring(Case::new(STORMY, async |fixture| contend(fixture, &[Kind::Mutex], STORMY, EXPIRIES).await)),
    ];
    let of_readers_and_writers = vec![
        Case::new(CALM_BOOK, async |fixture| contend(fixture, &[Kind::ReadWrite], CALM_BOOK, 0).await),
        expiring(Case::new(STORMY_BOOK, async |fixture| {
            contend(fixture, &[Kind::ReadWrite], STORMY_BOOK, EXPIRIES).await;
        })),
    ];
    let of_both = vec![
        Case::new(CALM_MIX, async |fixture| contend(fixture, ONE_LOCK, CALM_MIX, 0).await),
        expiring(Case::new(STORMY_MIX, async |fixture| contend(fixture, ONE_LOCK, STORMY_MIX, EXPIRIES).await)),
    ];
    let of_semaphores = vec![
        Case::new(CALM_POOL, async |fixture| contend(fixture, &[Kind::Semaphore], CALM_POOL, 0).await),
        expiring(Case::new(STORMY_POOL, async |fixture| {
            contend(fixture, &[Kind::Semaphore], STORMY_POOL, EXPIRIES).await;
        })),
    ];
    [
        using(Modes::MUTEX, of_mutexes),
        using(Modes::READ_WRITE, of_readers_and_writers),
        using(Modes::MUTEX.with(Modes::READ_WRITE), of_both),
        using(Modes::SEMAPHORE, of_semaphores),
    ]
    .concat()
}

/// A keeper that records its joins, and its client.
struct Side {
    number: u32,
    keeper: Keeper,
    client: Arc<dyn Client>,
}

async fn contend(fixture: &dyn Fixture, kinds: &'static [Kind], case: &str, expiries: u64) {
    let mut random = Random::announced(case);
    let history = History::new(Arc::new(SleepersClock::start(fixture.clock())));
    let mut sides = Vec::new();
    for number in 0..KEEPERS {
        let client = fixture.client().await.expect("the fixture opens a client");
        let pace = if random.below(2) == 0 { Pace::Prompt } else { Pace::YieldOnce };
        let keeper = Keeper::builder(Arc::new(Tap::new(client.backend(), pace)))
            .clock(fixture.clock())
            .observer(Arc::new(history.clone()))
            .build();
        sides.push(Side { number, keeper, client });
    }
    let mut tasks = JoinSet::new();
    for side in &sides {
        for task in 0..TASKS_PER_KEEPER {
            let first_attempt = (side.number * TASKS_PER_KEEPER + task) * ROUNDS;
            let contender = Contender {
                history: history.clone(),
                keeper: side.keeper.clone(),
                keeper_number: side.number,
                kinds,
                random: random.split(),
            };
            tasks.spawn(contender.take_turns(first_attempt));
        }
    }
    for _ in 0..expiries {
        let (side, wait_ms) = (&sides[random.below(u64::from(KEEPERS)) as usize], random.below(8));
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        history.record(What::Upset { keeper: side.number });
        side.client.inflict(Fault::ExpireSession).await.expect("the session is expired");
        history.record(What::Settled { keeper: side.number });
    }
    soon("the end of all turns", async {
        while let Some(outcome) = tasks.join_next().await {
            outcome.expect("no contender fails");
        }
    })
    .await;
    history.record(What::Drained { left: left_behind(&sides[0].keeper, fixture).await });
    let records = history.records();
    let hand_off_max = HAND_OFF_MAX + fixture.session_timeout().filter(|_| expiries > 0).unwrap_or_default();
    let limits = Limits { hand_off_max, permits: PERMITS };
    let violations = check(&records, limits);
    assert!(violations.is_empty(), "{violations:?}\nin {records:#?}");
}

/// Withdrawals go on in the background; a contender that is still there after their time counts as left behind.
async fn left_behind(keeper: &Keeper, fixture: &dyn Fixture) -> usize {
    let deadline = fixture.clock().now().saturating_add(SOON);
    loop {
        let left = keeper.contenders("door").await.expect("the queue can be looked at").len();
        if left == 0 || fixture.clock().now() >= deadline {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

struct Contender {
    history: History,
    keeper: Keeper,
    keeper_number: u32,
    /// The kind of lock that the name is used as; chosen by chance if there are several.
    kinds: &'static [Kind],
    random: Random,
}

impl Contender {
    async fn take_turns(mut self, first_attempt: u32) {
        for attempt in first_attempt..first_attempt + ROUNDS {
            let kind = self.kinds[self.random.below(self.kinds.len() as u64) as usize];
            let (keeper, asks) = (self.keeper_number, kind.choose(&mut self.random));
            self.history.record(What::Calling { attempt, keeper, asks });
            let history = self.history.clone();
            let until = Until::choose(&mut self.random);
            let outcome = history.on_behalf_of(attempt, ask(&self.keeper, kind, asks, until)).await;
            match outcome {
                None | Some(Ok(None)) => history.record(What::GaveUp { attempt }),
                Some(Ok(Some(held))) => self.hold(attempt, held).await,
                Some(Err(error)) => {
                    assert!(may_fail(&error), "{error:?}");
                    history.record(What::GaveUp { attempt });
                }
            }
        }
    }

    async fn hold(&mut self, attempt: u32, held: Held) {
        self.history.record(What::Granted { attempt, token: held.token(), held: held.is_held() });
        for _ in 0..self.random.below(4) {
            yield_now().await;
        }
        self.history.record(What::Releasing { attempt });
        if self.random.below(2) == 0 {
            drop(held);
        } else {
            // The history knows already that it was lost.
            let _ = held.release().await;
        }
    }
}

/// A `try_lock`, or a timeout, may meet a session that has just expired.
fn may_fail(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Lost(LossReason::Expired) | ErrorKind::ConnectionLost)
}
