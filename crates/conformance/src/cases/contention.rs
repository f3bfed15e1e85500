//! Random contention, by seed: the history is always right.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind, LossReason, Modes};
use lockkeeper_history::{Limits, What, check};
use lockkeeper_recipes::Keeper;
use tokio::task::{JoinSet, yield_now};

use crate::ask::{Ask, Held, LOCK, Until};
use crate::case::Case;
use crate::fixture::{Client, Fault, FaultKind, Fixture};
use crate::history::History;
use crate::party::all_done;
use crate::random::Random;
use crate::tap::{Pace, Tap};
use crate::waiting::{SOON, SleepersClock};

const KEEPERS: u32 = 3;
const TASKS_PER_KEEPER: u32 = 3;
const ROUNDS: u32 = 40;
const EXPIRIES: u64 = 12;

/// How many permits there are.
const PERMITS: u32 = 3;

/// The longest time for which a lock may be free while a contender waits, as a thread counts it that only sleeps.
const HAND_OFF_MAX: Duration = Duration::from_secs(5);

/// What contenders choose from by chance.
const MUTEX: &[Ask] = &[Ask::Mutex];
const BOOK: &[Ask] = &[Ask::Write, Ask::Read, Ask::Read];
/// A mutex is the exclusive side of the read/write lock of its name.
const MIX: &[Ask] = &[Ask::Mutex, Ask::Mutex, Ask::Mutex, Ask::Write, Ask::Read, Ask::Read];
const POOL: &[Ask] = &[Ask::Permits(1, PERMITS), Ask::Permits(2, PERMITS), Ask::Permits(3, PERMITS)];

pub(super) fn cases() -> Vec<Case> {
    let both = Modes::MUTEX.with(Modes::READ_WRITE);
    let calm = [
        ("the history of contenders that act at random is right", MUTEX, Modes::MUTEX),
        ("the history of readers and writers that act at random is right", BOOK, Modes::READ_WRITE),
        ("the history of mutexes, readers and writers of one name at random is right", MIX, both),
        ("the history of contenders for permits that act at random is right", POOL, Modes::SEMAPHORE),
    ];
    let stormy = [
        ("the history of contenders that act at random is right while sessions expire", MUTEX, Modes::MUTEX),
        (
            "the history of readers and writers that act at random is right while sessions expire",
            BOOK,
            Modes::READ_WRITE,
        ),
        ("the history of mutexes, readers and writers of one name at random is right while sessions expire", MIX, both),
        (
            "the history of contenders for permits that act at random is right while sessions expire",
            POOL,
            Modes::SEMAPHORE,
        ),
    ];
    let case = |(name, asks, uses), expiries| {
        Case::new(name, async move |fixture: &dyn Fixture| contend(fixture, asks, name, expiries).await).uses(uses)
    };
    let calm = calm.into_iter().map(|chosen| case(chosen, 0));
    let stormy = stormy.into_iter().map(|chosen| case(chosen, EXPIRIES).needs(&[FaultKind::ExpireSession]));
    calm.chain(stormy).collect()
}

/// A keeper that records its joins, and its client.
struct Side {
    number: u32,
    keeper: Keeper,
    client: Arc<dyn Client>,
}

async fn contend(fixture: &dyn Fixture, asks: &'static [Ask], case: &str, expiries: u64) {
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
                asks,
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
    all_done(tasks).await;
    history.record(What::Drained { left: left_behind(&sides[0].keeper, fixture).await });
    let records = history.records();
    let hand_off_max = HAND_OFF_MAX + fixture.session_timeout().filter(|_| expiries > 0).unwrap_or_default();
    let limits = Limits { hand_off_max, permits: PERMITS, ..Limits::default() };
    let violations = check(&records, limits);
    assert!(violations.is_empty(), "{violations:?}\nin {records:#?}");
}

/// Withdrawals go on in the background; a contender that is still there after their time counts as left behind.
async fn left_behind(keeper: &Keeper, fixture: &dyn Fixture) -> usize {
    let deadline = fixture.clock().now().saturating_add(SOON);
    loop {
        let left = keeper.contenders(LOCK).await.expect("the queue can be looked at").len();
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
    asks: &'static [Ask],
    random: Random,
}

impl Contender {
    async fn take_turns(mut self, first_attempt: u32) {
        for attempt in first_attempt..first_attempt + ROUNDS {
            let ask = self.asks[self.random.below(self.asks.len() as u64) as usize];
            self.history.record(What::Calling { attempt, keeper: self.keeper_number, asks: ask.recorded() });
            let history = self.history.clone();
            let until = Until::choose(&mut self.random);
            let outcome = history.on_behalf_of(attempt, until.ask(&self.keeper, ask)).await;
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
        // A session that is expired after this look is recorded after it.
        self.history.record_seen(|| What::Granted { attempt, token: held.token(), held: held.is_held() });
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
