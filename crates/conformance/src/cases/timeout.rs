//! Waiting for a limited time.

use std::pin::pin;
use std::time::Duration;

use lockkeeper_core::{Advice, Modes, Wait};

use crate::ask::{Ask, Held, LOCK};
use crate::case::{Case, using};
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{Party, give_back, granted, parties, release};
use crate::waiting::{Measured, assert_met, measured, soon};

/// How much later than a thread that only sleeps a timeout may end.
const LATE_MAX: Duration = Duration::from_millis(50);

const TIMEOUT: Duration = Duration::from_millis(150);

/// A timeout is measured this often.
const ROUNDS: usize = 5;

/// How many rounds are played at most until [`ROUNDS`] of them count. On a busy machine a waiter may join only after
/// its time is up, and then it was not cut off while it waited; the next one has twice the time.
const PLAYED_MAX: usize = 14;

/// How many holders follow one another while the timeout runs, and for how long each holds but the last.
const CHANGES: usize = 40;
const HOLD: Duration = Duration::from_millis(10);

const BOTH: Ask = Ask::Permits(2, 2);
const OTHER_KINDS: &[Ask] = &[Ask::Read, Ask::Write, BOTH];

pub(super) fn cases() -> Vec<Case> {
    let cutting = |case: Case| case.needs(&[FaultKind::Cut]);
    let (books, pools) = (Modes::READ_WRITE, Modes::SEMAPHORE);
    let all = Modes::MUTEX.with(books).with(pools);
    let mutexes = vec![
        Case::with("a timeout is met within 50 ms", &[Ask::Mutex][..], met),
        Case::with("a timeout is met while the holder changes", Ask::Mutex, met_while_the_holder_changes).strict(),
        Case::with("a timeout is met while the service stands still", &[Ask::Mutex][..], met_in_a_pause)
            .given_back()
            .needs(&[FaultKind::Pause]),
        cutting(Case::with("a timeout is met while the connection is cut", &[Ask::Mutex][..], met_in_a_cut))
            .given_back(),
        cutting(Case::new("a timeout is met by a waiter that is then cut off", met_by_one_cut_off)),
    ];
    let (both, permits) = ([Ask::Permits(1, 2), BOTH], Ask::Permits(1, 1));
    let other_kinds = vec![
        Case::with("a timeout to read, to write or for permits is met within 50 ms", OTHER_KINDS, met)
            .uses(books.with(pools)),
        Case::new("a timeout to write is met while the readers ahead change", met_while_readers_change).uses(books),
        Case::with(
            "a timeout for permits is met while the permits change hands",
            permits,
            met_while_the_holder_changes,
        )
        .uses(pools),
        cutting(Case::with(
            "a read, write or permit timeout is met while the client is cut off",
            OTHER_KINDS,
            met_in_a_cut,
        ))
        .uses(all),
    ];
    let giving_up = [
        ("a waiter whose time is up makes way for those behind it", [Ask::Mutex; 3], Modes::MUTEX),
        ("a writer that gives up lets in the readers behind it", [Ask::Read, Ask::Write, Ask::Read], books),
        ("a waiter for permits that gives up makes way for those behind it", [both[0], BOTH, both[0]], pools),
        ("a campaign whose time is up leaves no candidate", [Ask::Lead; 3], Modes::ELECTION),
    ];
    let giving_up = giving_up.map(|(name, asks, uses)| Case::with(name, asks, makes_way).uses(uses));
    [using(Modes::MUTEX, mutexes), other_kinds, giving_up.into()].concat()
}

/// Measures one wait that must not be granted; only transient errors are accepted.
async fn measure(fixture: &dyn Fixture, party: &Party, ask: Ask, timeout: Duration) -> Measured {
    let (outcome, wait) = measured(fixture, timeout, ask.within(&party.keeper, Wait::AtMost(timeout))).await;
    match outcome {
        Ok(None) => {}
        Ok(Some(_)) => panic!("{ask:?} was granted, though another held it or the service did not answer"),
        Err(error) => assert_ne!(error.advice(), Advice::Permanent, "{error}"),
    }
    assert!(wait.took >= timeout, "{ask:?}: the time was up after {:?} already", wait.took);
    wait
}

async fn met(fixture: &dyn Fixture, asks: &[Ask]) {
    let [ann, bob] = parties(fixture).await;
    for &ask in asks {
        let held = ann.take(if ask == BOTH { Ask::Permits(1, 2) } else { exclusive(ask) }).await;
        let mut waits = Vec::new();
        for _ in 0..ROUNDS {
            waits.push(measure(fixture, &bob, ask, TIMEOUT).await);
            ann.until_contenders(LOCK, 1).await;
        }
        assert_met(waits, LATE_MAX);
        give_back(held).await;
        ann.until_contenders(LOCK, 0).await;
    }
}

/// What keeps this waiting.
const fn exclusive(ask: Ask) -> Ask {
    if matches!(ask, Ask::Read) { Ask::Write } else { ask }
}

async fn met_while_the_holder_changes(fixture: &dyn Fixture, ask: Ask) {
    let [ann, bob] = parties(fixture).await;
    let mut waits = Vec::new();
    for _ in 0..ROUNDS {
        let first = ann.take(ask).await;
        let mut holders = Vec::new();
        for _ in 1..CHANGES {
            let waiting = ann.queue_up_as(ask).await;
            holders.push(tokio::spawn(async move { hold_for_a_while(granted(waiting).await).await }));
        }
        // However late the machine makes the end of the time, another one holds the lock until then.
        let last = ann.queue_up_as(ask).await;
        holders.push(tokio::spawn(hold_for_a_while(first)));
        waits.push(measure(fixture, &bob, ask, TIMEOUT).await);
        for holder in holders {
            soon("the holders' end", holder).await.expect("the task does not panic");
        }
        give_back(granted(last).await).await;
    }
    assert_met(waits, LATE_MAX);
}

async fn hold_for_a_while(held: Held) {
    tokio::time::sleep(HOLD).await;
    give_back(held).await;
}

/// All read at once, and the one nearest to the writer goes first, so that it looks again each time.
async fn met_while_readers_change(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mut waits = Vec::new();
    for _ in 0..ROUNDS {
        // However late the machine makes the end of the time, one reads until then.
        let first = ann.take(Ask::Read).await;
        let mut readers = Vec::new();
        for _ in 1..CHANGES {
            readers.push(ann.take(Ask::Read).await);
        }
        let leaving = tokio::spawn(async move {
            while let Some(reader) = readers.pop() {
                hold_for_a_while(reader).await;
            }
        });
        waits.push(measure(fixture, &bob, Ask::Write, TIMEOUT).await);
        soon("the readers' end", leaving).await.expect("the task does not panic");
        give_back(first).await;
    }
    assert_met(waits, LATE_MAX);
}

async fn met_in_a_pause(fixture: &dyn Fixture, asks: &[Ask]) {
    met_while(fixture, Fault::Pause, Fault::Resume, asks).await;
}

async fn met_in_a_cut(fixture: &dyn Fixture, asks: &[Ask]) {
    met_while(fixture, Fault::Cut, Fault::Heal, asks).await;
}

async fn met_while(fixture: &dyn Fixture, fault: Fault, its_end: Fault, asks: &[Ask]) {
    let ann = Party::enter(fixture).await;
    for &ask in asks {
        let mut waits = Vec::new();
        for _ in 0..ROUNDS {
            // It opens the session, and keeps no place of the lock.
            release(ann.lock("hall").await).await;
            ann.inflict(fault.clone()).await;
            waits.push(measure(fixture, &ann, ask, TIMEOUT).await);
            ann.inflict(its_end.clone()).await;
            ann.until_contenders(LOCK, 0).await;
        }
        assert_met(waits, LATE_MAX);
    }
}

async fn met_by_one_cut_off(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    let (mut waits, mut timeout) = (Vec::new(), TIMEOUT);
    for _ in 0..PLAYED_MAX {
        match cut_off(&bob, measure(fixture, &bob, Ask::Mutex, timeout)).await {
            Some(wait) => waits.push(wait),
            None => timeout *= 2,
        }
        ann.until_contenders(LOCK, 1).await;
        if waits.len() == ROUNDS {
            break;
        }
    }
    assert_eq!(waits.len(), ROUNDS, "so many of {PLAYED_MAX} waiters had joined before their time was up");
    assert_met(waits, LATE_MAX);
    give_back(held).await;
}

/// Cuts a waiter off once it has joined, and returns what was measured of its wait; `None` if its time was up before it
/// had joined.
async fn cut_off(waiter: &Party, measuring: impl Future<Output = Measured>) -> Option<Measured> {
    let joined = waiter.journal.count(is_joined);
    let mut measuring = pin!(measuring);
    tokio::select! {
        biased;
        _ = &mut measuring => return None,
        () = waiter.journal.until_count("a join", joined + 1, is_joined) => {}
    }
    let (wait, ()) = tokio::join!(measuring, waiter.inflict(Fault::Cut));
    waiter.inflict(Fault::Heal).await;
    Some(wait)
}

async fn makes_way(fixture: &dyn Fixture, [holds, hasty, patient]: [Ask; 3]) {
    let [ann, bob, eve] = parties(fixture).await;
    let mut held = Some(ann.take(holds).await);
    let (hasty, _) = bob.queue_up_in_vain(hasty).await;
    let waiting = eve.queue_up_as(patient).await;
    assert!(soon("the end of the timeout", granted(hasty)).await.is_none());
    if holds.excludes(patient) {
        ann.until_contenders(LOCK, 2).await;
        give_back(held.take().expect("it was held until now")).await;
    }
    let next = granted(waiting).await;
    assert!(next.is_held() && held.as_ref().is_none_or(Held::is_held));
    for held in held.into_iter().chain([next]) {
        give_back(held).await;
    }
}
