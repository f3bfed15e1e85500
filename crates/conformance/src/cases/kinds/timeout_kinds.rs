//! Waiting to read, to write or for permits for a limited time.

use std::time::Duration;

use lockkeeper_core::{Advice, Modes, Result, Wait};

use super::timeout::{PLAYED_MAX, cut_off};
use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::lateness::{Measured, measured};
use crate::party::{Party, granted, release, release_all};
use crate::waiting::soon;

/// How much later than a thread that only sleeps a timeout may end; and how often it is measured, the median being what
/// counts: on a machine with other work to do a single one can be late without any fault of ours.
const LATE_MAX: Duration = Duration::from_millis(50);
const ROUNDS: usize = 3;

const TIMEOUT: Duration = Duration::from_millis(150);

/// How many holders follow one another while a timeout runs, and for how long each holds but one.
const CHANGES: usize = 25;
const HOLD: Duration = Duration::from_millis(10);

pub(super) fn cases() -> Vec<Case> {
    let cutting = |case: Case| case.needs(&[FaultKind::Cut]);
    vec![
        Case::new("a timeout to read, to write or for permits is met within 50 ms", met)
            .uses(Modes::READ_WRITE.with(Modes::SEMAPHORE)),
        Case::new("a timeout to write is met while the readers ahead change", met_while_readers_change)
            .uses(Modes::READ_WRITE),
        Case::new("a timeout for permits is met while the permits change hands", met_while_permits_change)
            .uses(Modes::SEMAPHORE),
        cutting(
            Case::new("a read, write or permit timeout is met while the client is cut off", met_while_cut)
                .uses(Modes::MUTEX.with(Modes::READ_WRITE).with(Modes::SEMAPHORE)),
        ),
        cutting(
            Case::new("a timeout for permits is met by a waiter that is then cut off", met_by_a_waiter_cut_off)
                .uses(Modes::SEMAPHORE),
        ),
    ]
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Read,
    Write,
    Permits,
}

impl Ask {
    const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Permits];

    const fn lock(self) -> &'static str {
        match self {
            Self::Read | Self::Write => "book",
            Self::Permits => "pool",
        }
    }

    /// Asks; tells whether it was granted.
    async fn within(self, party: &Party, timeout: Duration) -> Result<bool> {
        Ok(match self {
            Self::Read => party.rw_lock("book").read_timeout(timeout).await?.is_some(),
            Self::Write => party.rw_lock("book").write_timeout(timeout).await?.is_some(),
            Self::Permits => party.semaphore("pool", 2).acquire_many_within(2, Wait::AtMost(timeout)).await?.is_some(),
        })
    }
}

/// Measures one wait that must not be granted; only transient errors are accepted.
async fn measure(fixture: &dyn Fixture, party: &Party, ask: Ask, timeout: Duration) -> Measured {
    let (outcome, wait) = measured(fixture, timeout, ask.within(party, timeout)).await;
    match outcome {
        Ok(granted) => assert!(!granted, "{ask:?} was granted, though others held it or the service did not answer"),
        Err(error) => assert_ne!(error.advice(), Advice::Permanent, "{error}"),
    }
    assert!(wait.took >= timeout, "{ask:?}: the time was up after {:?} already", wait.took);
    wait
}

fn assert_met(ask: Ask, mut waits: Vec<Measured>) {
    waits.sort();
    let late = waits[waits.len() / 2].late;
    assert!(late <= LATE_MAX, "{ask:?} is late by {late:?}; all: {waits:?}");
}

async fn met(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let writer = ann.write("book").await;
    let permit = soon("the grant", ann.semaphore("pool", 2).acquire()).await.expect("it is granted");
    for ask in Ask::ALL {
        let mut waits = Vec::new();
        for _ in 0..ROUNDS {
            waits.push(measure(fixture, &bob, ask, TIMEOUT).await);
            ann.until_contenders(ask.lock(), 1).await;
        }
        assert_met(ask, waits);
    }
    release(writer).await;
    release(permit).await;
}

async fn met_while_readers_change(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let mut waits = Vec::new();
    for _ in 0..ROUNDS {
        // All read at once, and the one nearest to the writer goes first, so that it looks again each time.
        let mut readers = Vec::new();
        for _ in 0..CHANGES {
            readers.push(ann.read("book").await);
        }
        // However late the machine makes the end of the time, one reads until then.
        let first = readers.remove(0);
        let leaving = tokio::spawn(async move {
            while let Some(reader) = readers.pop() {
                tokio::time::sleep(HOLD).await;
                release(reader).await;
            }
        });
        waits.push(measure(fixture, &bob, Ask::Write, TIMEOUT).await);
        soon("the readers' end", leaving).await.expect("the task does not panic");
        release(first).await;
    }
    assert_met(Ask::Write, waits);
}

async fn met_while_permits_change(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let mut waits = Vec::new();
    for _ in 0..ROUNDS {
        let semaphore = ann.semaphore("pool", 2);
        let mut held = soon("the grant", semaphore.acquire_many(2)).await.expect("they are granted");
        let mut holders = Vec::new();
        for _ in 0..CHANGES {
            let waiting = ann.queue_up_for_permits(&semaphore, 1).await;
            holders.push(tokio::spawn(async move {
                let permits = granted(waiting).await;
                tokio::time::sleep(HOLD).await;
                release_all(permits).await;
            }));
        }
        let kept = held.pop();
        let relay = tokio::spawn(release_all(held));
        waits.push(measure(fixture, &bob, Ask::Permits, TIMEOUT).await);
        soon("the release", relay).await.expect("the task does not panic");
        for holder in holders {
            soon("the holders' end", holder).await.expect("the task does not panic");
        }
        drop(kept);
        ann.until_contenders("pool", 0).await;
    }
    assert_met(Ask::Permits, waits);
}

async fn met_while_cut(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    for ask in Ask::ALL {
        let mut waits = Vec::new();
        for _ in 0..ROUNDS {
            release(ann.lock("door").await).await;
            ann.inflict(Fault::Cut).await;
            waits.push(measure(fixture, &ann, ask, TIMEOUT).await);
            ann.inflict(Fault::Heal).await;
            ann.until_contenders(ask.lock(), 0).await;
        }
        assert_met(ask, waits);
    }
}

async fn met_by_a_waiter_cut_off(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let permit = soon("the grant", ann.semaphore("pool", 2).acquire()).await.expect("it is granted");
    let (mut waits, mut timeout) = (Vec::new(), TIMEOUT);
    for _ in 0..PLAYED_MAX {
        match cut_off(&bob, measure(fixture, &bob, Ask::Permits, timeout)).await {
            Some(wait) => waits.push(wait),
            None => timeout *= 2,
        }
        ann.until_contenders("pool", 1).await;
        if waits.len() == ROUNDS {
            break;
        }
    }
    assert_eq!(waits.len(), ROUNDS, "so many of {PLAYED_MAX} waiters had joined before their time was up");
    assert_met(Ask::Permits, waits);
    release(permit).await;
}
