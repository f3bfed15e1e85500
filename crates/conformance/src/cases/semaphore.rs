//! Permits: no more than there are, together, and in order; their number is agreed on by their holders, or given by a
//! counter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::{Advice, Error, ErrorKind, Expected, Mode, Modes, Part, QueueName};
use lockkeeper_recipes::{Permit, Permits, Semaphore};
use tokio::task::{JoinSet, yield_now};

use crate::ask::{Ask, Held, LOCK};
use crate::case::{Case, using};
use crate::fixture::Fixture;
use crate::party::{IN_VAIN, Party, all_done, enter_all, give_back, granted, in_vain, parties, release, release_all};
use crate::random::Random;
use crate::speaker::{Speaker, line, part_of};
use crate::waiting::soon;

const RANDOM: &str = "permits taken in random amounts and given back one by one never exceed their number";

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new("as many permits are granted as there are, and the next one waits", as_many_as_there_are),
        Case::new("permits of one call are granted all at once or not at all", all_at_once),
        Case::new("a waiter for many permits is not passed by waiters for few", many_not_passed),
        Case::new("a permit given back wakes the first waiter, and its place the next, and no other waiter", wakes_one),
        Case::new("10 clients share 5 permits: all 5 are in use at once, and never more", five_at_once),
        Case::new(RANDOM, random_amounts),
        Case::new("closing a keeper frees its permits", closing_frees),
        Case::new("contenders() shows the permits that are held, then the waiters for some", shows_all),
        Case::new("each permit has a token, greater than that of every permit before", tokens_grow),
    ];
    using(Modes::SEMAPHORE, cases)
}

/// Takes so many permits of so many.
async fn take(party: &Party, wanted: u32, of: u32) -> Vec<Permit> {
    soon("the grant", party.semaphore(LOCK, of).acquire_many(wanted)).await.expect("they are granted")
}

/// Returns how many permits are held.
async fn in_use(onlooker: &Party) -> usize {
    onlooker.shown(LOCK).await.iter().filter(|contender| contender.mode == Mode::Permit).count()
}

async fn as_many_as_there_are(fixture: &dyn Fixture) {
    const ONE: Ask = Ask::Permits(1, 3);
    let [ann, bob] = parties(fixture).await;
    let mut held = vec![ann.take(ONE).await, bob.take(ONE).await, ann.take(ONE).await];
    assert!(held.iter().all(Held::is_held));
    assert!(ann.asks_in_vain(ONE).await && bob.asks_in_vain(ONE).await);
    ann.until_contenders(LOCK, 3).await;
    let waiting = bob.queue_up_as(ONE).await;
    assert!(!waiting.is_finished());
    give_back(held.swap_remove(1)).await;
    held.push(granted(waiting).await);
    // The place among the waiters is given up in the background.
    ann.until_contenders(LOCK, 3).await;
    for held in held {
        give_back(held).await;
    }
    give_back(ann.tried(Ask::Permits(3, 3)).await.expect("all are free")).await;
}

async fn all_at_once(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mut first = take(&ann, 3, 5).await;
    assert_eq!(first.len(), 3);
    assert!(bob.tried(Ask::Permits(3, 5)).await.is_none());
    assert!(bob.asks_in_vain(Ask::Permits(4, 5)).await);
    ann.until_contenders(LOCK, 3).await;
    let waiting = bob.queue_up_as(Ask::Permits(4, 5)).await;
    release(first.pop().expect("there are three")).await;
    yield_now().await;
    assert!(!waiting.is_finished(), "three of four fit");
    assert_eq!(in_use(&ann).await, 2, "a waiter holds nothing");
    release(first.pop().expect("there are two")).await;
    let second = granted(waiting).await;
    assert_eq!(second.holds().len(), 4);
    give_back(Held::Permits(first)).await;
    give_back(second).await;
}

async fn many_not_passed(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mut held = take(&ann, 2, 3).await;
    let many = bob.queue_up_as(Ask::Permits(3, 3)).await;
    let few = ann.queue_up_as(Ask::Permits(1, 3)).await;
    let refused = ann.tried(Ask::Permits(1, 3)).await;
    assert!(refused.is_none() && !few.is_finished(), "one is free, but a waiter wants three");
    release(held.pop().expect("there are two")).await;
    yield_now().await;
    assert!(!few.is_finished() && !many.is_finished());
    give_back(Held::Permits(held)).await;
    let all = granted(many).await;
    assert!(!few.is_finished());
    give_back(all).await;
    give_back(granted(few).await).await;
}

async fn wakes_one(fixture: &dyn Fixture) {
    const WAITERS: u64 = 8;
    const ONE: Ask = Ask::Permits(1, 1);
    let parties = enter_all(fixture, 4).await;
    let held = parties[0].take(ONE).await;
    let mut waiting = Vec::new();
    for party in parties.iter().cycle().take(WAITERS as usize) {
        waiting.push(party.queue_up_as(ONE).await);
    }
    let wake_ups = || {
        let of = |party: &Party| (party.tap.changes(), party.tap.departures());
        parties.iter().map(of).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    };
    assert_eq!(wake_ups(), (0, 0), "no waiter is woken while no contender leaves");
    give_back(held).await;
    for (number, next) in (1..).zip(waiting) {
        let held = granted(next).await;
        // A waiter that comes to the head after the next permit was given back need not be woken.
        let (looks, turns) = wake_ups();
        assert!(looks <= number && turns <= number, "{looks} looks and {turns} turns for {number} grants");
        give_back(held).await;
    }
    let (looks, turns) = wake_ups();
    assert!(looks <= WAITERS, "{looks} looks at the permits");
    assert_eq!(turns, WAITERS - 1, "each came to the head of the waiters once");
}

/// How many permits are in use, and the most that were in use at once.
#[derive(Debug, Default)]
struct InUse {
    now: AtomicU64,
    most: AtomicU64,
    given_back: AtomicU64,
}

impl InUse {
    /// Returns how many of ten contenders have not given their permit back.
    fn left(&self) -> usize {
        10 - self.given_back.load(Ordering::SeqCst) as usize
    }

    fn add(&self, permits: u64) {
        let now = self.now.fetch_add(permits, Ordering::SeqCst) + permits;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn subtract(&self, permits: u64) {
        self.given_back.fetch_add(permits, Ordering::SeqCst);
        self.now.fetch_sub(permits, Ordering::SeqCst);
    }

    /// Returns how many are in use, and the most that were.
    fn seen(&self) -> (u64, u64) {
        (self.now.load(Ordering::SeqCst), self.most.load(Ordering::SeqCst))
    }
}

async fn five_at_once(fixture: &dyn Fixture) {
    let counted = Arc::new(InUse::default());
    let together = Arc::new(tokio::sync::Barrier::new(5));
    let mut tasks = JoinSet::new();
    for party in enter_all(fixture, 10).await {
        let (counted, together) = (counted.clone(), together.clone());
        tasks.spawn(async move {
            let held = party.take(Ask::Permits(1, 5)).await;
            counted.add(1);
            if together.wait().await.is_leader() {
                // The contenders that are not served yet had time to come in, and did not.
                party.until_contenders(LOCK, counted.left()).await;
                assert_eq!(in_use(&party).await, 5);
            }
            together.wait().await;
            counted.subtract(1);
            give_back(held).await;
        });
    }
    all_done(tasks).await;
    assert_eq!(counted.seen(), (0, 5));
}

async fn random_amounts(fixture: &dyn Fixture) {
    const PERMITS: u32 = 11;
    let mut random = Random::announced(RANDOM);
    let counted = Arc::new(InUse::default());
    let mut tasks = JoinSet::new();
    let parties = enter_all(fixture, 5).await;
    for party in parties.iter().cycle().take(25) {
        let (party, counted, mut random) = (party.clone(), counted.clone(), random.split());
        tasks.spawn(async move {
            for _ in 0..4 {
                let wanted = 1 + random.below(u64::from(PERMITS)) as u32;
                let permits = take(&party, wanted, PERMITS).await;
                assert_eq!(permits.len(), wanted as usize);
                counted.add(u64::from(wanted));
                for permit in permits {
                    yield_now().await;
                    counted.subtract(1);
                    if random.below(2) == 0 { drop(permit) } else { release(permit).await }
                }
            }
        });
    }
    all_done(tasks).await;
    let (now, most) = counted.seen();
    assert!(now == 0 && most <= u64::from(PERMITS), "{most} of {PERMITS} permits were in use at once");
    parties[0].until_contenders(LOCK, 0).await;
}

async fn closing_frees(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Permits(2, 2)).await;
    let waiting = bob.queue_up_as(Ask::Permits(2, 2)).await;
    soon("the close", ann.keeper.close()).await.expect("the service is told");
    let next = granted(waiting).await;
    assert!(held.holds().iter().all(|hold| !hold.is_held()));
    drop(held);
    assert!(next.is_held());
    give_back(next).await;
}

async fn shows_all(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Permits(3, 3)).await;
    // Its place among the waiters goes without a wait for it.
    ann.until_contenders(LOCK, 3).await;
    let waiting = bob.queue_up_as(Ask::Permits(1, 3)).await;
    let shown = bob.shown(LOCK).await;
    let modes: Vec<_> = shown.iter().map(|contender| contender.mode).collect();
    assert_eq!(modes, [Mode::Permit, Mode::Permit, Mode::Permit, Mode::Acquire]);
    for hold in held.holds() {
        let mine = shown.iter().find(|contender| contender.id == *hold.contender());
        let owner = mine.and_then(|contender| contender.owner.as_ref()).expect("it says who it is");
        assert_eq!(owner.pid, std::process::id());
    }
    give_back(held).await;
    give_back(granted(waiting).await).await;
}

async fn tokens_grow(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 2).await;
    let mut last = None;
    for party in parties.iter().cycle().take(10) {
        let held = party.take(Ask::Permits(2, 4)).await;
        for hold in held.holds() {
            assert!(Some(hold.fencing_token()) > last, "{} after {last:?}", hold.fencing_token());
            last = Some(hold.fencing_token());
        }
        give_back(held).await;
    }
}

pub(super) fn bounds() -> Vec<Case> {
    vec![
        Case::new("a caller that says another number of permits while some are held is refused", mismatch),
        Case::new("the number of permits is agreed on anew when none is held", agreed_anew),
        Case::new("what another client wrote where the number of permits lies is left alone", foreign_value),
        Case::new("raising the counter lets waiters in at once", raised),
        Case::new("lowering the counter takes no permit away and lets no waiter in", lowered),
        Case::new("without its counter, or with a negative one, a semaphore grants nothing", nothing_to_grant),
        Case::new("a value that is not a counter is an error, and leaves nothing", no_counter),
    ]
}

fn assert_bound_mismatch(error: Option<Error>) {
    let error = error.expect("another number is agreed on");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::BoundMismatch, Advice::Permanent), "{error}");
}

async fn mismatch(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = soon("the grant", ann.semaphore("pool", 3).acquire()).await.expect("it is granted");
    for other in [2, 4] {
        let semaphore = bob.semaphore("pool", other);
        assert_bound_mismatch(soon("the refusal", semaphore.acquire()).await.err());
        assert_bound_mismatch(soon("the refusal", semaphore.try_acquire()).await.err());
        assert_bound_mismatch(soon("the refusal", semaphore.acquire_timeout(Duration::from_secs(3600))).await.err());
    }
    ann.until_contenders("pool", 1).await;
    let agreeing = soon("the answer", bob.semaphore("pool", 3).try_acquire()).await.expect("it does not fail");
    release(agreeing.expect("two are free")).await;
    release(held).await;
}

async fn agreed_anew(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    for permits in [3, 1, 5, 2] {
        let held = soon("the grant", ann.semaphore("pool", permits).acquire_many(permits)).await;
        let held = held.expect("no permit is held that fixes another number");
        let refused = soon("the answer", bob.semaphore("pool", permits).try_acquire()).await;
        assert!(refused.expect("busy is no error").is_none(), "{permits} are the most");
        assert_bound_mismatch(soon("the refusal", bob.semaphore("pool", permits + 1).acquire()).await.err());
        release_all(held).await;
    }
}

async fn foreign_value(fixture: &dyn Fixture) {
    const WORDS: &[u8] = b"another client's words";
    let (ann, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let queue = part_of("pool", Part::Permits);
    let written = eve.session.values().set(&queue, Expected::Absent, Some(WORDS.into()));
    assert!(soon("the answer", written).await.expect("it can be written").is_some());
    let semaphore = ann.semaphore("pool", 2);
    let held = soon("the grant", semaphore.acquire_many(2)).await.expect("they are granted");
    assert!(soon("the answer", semaphore.try_acquire()).await.expect("busy is no error").is_none());
    let value = soon("the value", eve.session.values().get(&queue)).await.expect("it can be read");
    assert_eq!(&*value.expect("it was not removed").bytes, WORDS);
    release_all(held).await;
    soon("the answer", eve.session.values().set(&queue, Expected::Any, None)).await.expect("it can be removed");
}

/// Writes the counter as Curator's shared count is written.
async fn count(speaker: &Speaker, permits: i32) {
    write(speaker, Some(permits.to_be_bytes().to_vec())).await;
}

async fn write(speaker: &Speaker, bytes: Option<Vec<u8>>) {
    let bytes: Option<Arc<[u8]>> = bytes.map(Into::into);
    let written = speaker.session.values().set(&counter(), Expected::Any, bytes);
    assert!(soon("the answer", written).await.expect("it can be written").is_some());
}

fn counter() -> QueueName {
    line("pool size")
}

/// The semaphore that the counter bounds.
fn counted(party: &Party) -> Semaphore {
    party.semaphore("pool", Permits::Counter("pool size".to_owned()))
}

async fn raised(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Speaker::enter(fixture).await);
    count(&eve, 1).await;
    let held = soon("the grant", counted(&ann).acquire()).await.expect("it is granted");
    let first = bob.queue_up_for(counted(&bob).acquire_many_owned(2)).await;
    let second = ann.queue_up_for(counted(&ann).acquire_many_owned(1)).await;
    count(&eve, 2).await;
    yield_now().await;
    assert!(!first.is_finished() && !second.is_finished(), "two more are wanted");
    count(&eve, 3).await;
    let first = granted(first).await;
    assert!(!second.is_finished());
    count(&eve, 4).await;
    let second = granted(second).await;
    assert!(held.hold().is_held() && first.iter().chain(&second).all(|permit| permit.hold().is_held()));
    release(held).await;
    release_all(first).await;
    release_all(second).await;
    write(&eve, None).await;
}

async fn lowered(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Speaker::enter(fixture).await);
    count(&eve, 3).await;
    let semaphore = counted(&ann);
    let mut held = soon("the grant", semaphore.acquire_many(3)).await.expect("they are granted");
    count(&eve, 1).await;
    assert!(held.iter().all(|permit| permit.hold().is_held()));
    let waiting = bob.queue_up_for(counted(&bob).acquire_many_owned(1)).await;
    for left in [2, 1] {
        release(held.pop().expect("there were three")).await;
        assert!(in_vain(async || semaphore.acquire_timeout(IN_VAIN).await).await);
        assert!(!waiting.is_finished(), "{left} are held, and one is the most");
    }
    release_all(held).await;
    release_all(granted(waiting).await).await;
    write(&eve, None).await;
}

async fn nothing_to_grant(fixture: &dyn Fixture) {
    let (ann, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let semaphore = counted(&ann);
    let written = |counter: i32| Some(counter.to_be_bytes().to_vec());
    for counter in [None, Some(Vec::new()), written(0), written(-7)] {
        write(&eve, counter.clone()).await;
        assert!(soon("the answer", semaphore.try_acquire()).await.expect("busy is no error").is_none());
        assert!(in_vain(async || semaphore.acquire_timeout(IN_VAIN).await).await, "with {counter:?}");
    }
    let waiting = ann.queue_up_for(semaphore.acquire_many_owned(1)).await;
    count(&eve, 1).await;
    release_all(granted(waiting).await).await;
    write(&eve, None).await;
}

async fn no_counter(fixture: &dyn Fixture) {
    let (ann, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let semaphore = counted(&ann);
    for bytes in [&b"3"[..], b"\0\0\0\0\x03"] {
        write(&eve, Some(bytes.to_vec())).await;
        let tried = soon("the refusal", semaphore.try_acquire()).await.err();
        for error in [tried, soon("the refusal", semaphore.acquire()).await.err()] {
            let error = error.expect("a counter has four bytes");
            assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidRequest, Advice::Permanent), "{error}");
        }
    }
    ann.until_contenders("pool", 0).await;
    write(&eve, None).await;
}
