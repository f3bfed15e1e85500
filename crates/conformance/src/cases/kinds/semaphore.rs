//! Permits: no more than there are, together, and in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::{Mode, Modes};
use lockkeeper_recipes::Permit;
use tokio::task::{JoinSet, yield_now};

use crate::asking::{Ask, Held, LOCK};
use crate::case::{Case, using};
use crate::fixture::Fixture;
use crate::party::{Party, all_done, enter_all, give_back, granted, parties, release};
use crate::random::Random;
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
