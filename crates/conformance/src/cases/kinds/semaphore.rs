//! Permits: no more than there are, together, and in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::{Mode, Wait};
use lockkeeper_recipes::{Permit, Semaphore};
use tokio::task::{JoinSet, yield_now};

use crate::case::Case;
use crate::fixture::Fixture;
use crate::journal::is_joined;
use crate::party::{Party, enter_all, granted, in_vain, release, release_all};
use crate::random::Random;
use crate::waiting::soon;

const IN_VAIN: Duration = Duration::from_millis(200);
const RANDOM: &str = "permits taken in random amounts and given back one by one never exceed their number";

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("as many permits are granted as there are, and the next one waits", as_many_as_there_are),
        Case::new("permits of one call are granted all at once or not at all", all_at_once),
        Case::new("two callers that want more than half of the permits take turns", take_turns),
        Case::new("a waiter for many permits is not passed by waiters for few", many_not_passed),
        Case::new("waiters for permits are served in the order they joined", in_order),
        Case::new("a permit given back wakes the first waiter, and its place the next, and no other waiter", wakes_one),
        Case::new("10 clients share 5 permits: all 5 are in use at once, and never more", five_at_once),
        Case::new(RANDOM, random_amounts),
        Case::new("a semaphore of one permit excludes like a mutex, and any task may give it back", like_a_mutex),
        Case::new("try_acquire of a semaphore without free permits says no and joins nothing", says_no),
        Case::new("try_acquire never passes a waiter", never_passes),
        Case::new("closing a keeper frees its permits", closing_frees),
        Case::new("contenders() shows the permits that are held, then the waiters for some", shows_all),
        Case::new("each permit has a token, greater than that of every permit before", tokens_grow),
        Case::new("a waiter for permits that gives up makes way for those behind it", makes_way),
    ]
}

async fn acquire(semaphore: &Semaphore) -> Permit {
    soon("the grant", semaphore.acquire()).await.expect("the permit is granted")
}

async fn as_many_as_there_are(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let (of_ann, of_bob) = (ann.semaphore("pool", 3), bob.semaphore("pool", 3));
    let mut permits = vec![acquire(&of_ann).await, acquire(&of_bob).await, acquire(&of_ann).await];
    assert!(permits.iter().all(|permit| permit.hold().is_held()));
    for semaphore in [&of_ann, &of_bob] {
        assert!(in_vain(async || semaphore.acquire_timeout(IN_VAIN).await).await);
    }
    ann.until_contenders("pool", 3).await;
    let waiting = bob.queue_up_for_permits(&of_bob, 1).await;
    assert!(!waiting.is_finished());
    release(permits.swap_remove(1)).await;
    permits.extend(granted(waiting).await);
    // The place among the waiters is given up in the background.
    ann.until_contenders("pool", 3).await;
    release_all(permits).await;
    let again = soon("the answer", of_ann.acquire_many_within(3, Wait::No)).await.expect("it does not fail");
    release_all(again.expect("all are free")).await;
}

async fn all_at_once(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let (of_ann, of_bob) = (ann.semaphore("pool", 5), bob.semaphore("pool", 5));
    let mut first = soon("the grant", of_ann.acquire_many(3)).await.expect("they are granted");
    assert_eq!(first.len(), 3);
    let refused = soon("the answer", of_bob.acquire_many_within(3, Wait::No)).await.expect("busy is no error");
    assert!(refused.is_none());
    assert!(in_vain(async || of_bob.acquire_many_within(4, Wait::AtMost(IN_VAIN)).await).await);
    ann.until_contenders("pool", 3).await;
    let waiting = bob.queue_up_for_permits(&of_bob, 4).await;
    release(first.pop().expect("there are three")).await;
    yield_now().await;
    assert!(!waiting.is_finished(), "three of four fit");
    let shown = ann.keeper.contenders("pool").await.expect("the queue can be looked at");
    let held = shown.iter().filter(|contender| contender.mode == Mode::Permit).count();
    assert_eq!(held, 2, "a waiter holds nothing");
    release(first.pop().expect("there are two")).await;
    let second = granted(waiting).await;
    assert_eq!(second.len(), 4);
    release_all(first).await;
    release_all(second).await;
}

/// If permits were taken one at a time, each caller would hold some and wait for the other's.
async fn take_turns(fixture: &dyn Fixture) {
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        let semaphore = Party::enter(fixture).await.semaphore("pool", 5);
        tasks.spawn(async move {
            for _ in 0..20 {
                let permits = semaphore.acquire_many(3).await.expect("they are granted");
                yield_now().await;
                release_all(permits).await;
            }
        });
    }
    soon("the end of all turns", async {
        while let Some(outcome) = tasks.join_next().await {
            outcome.expect("no task fails");
        }
    })
    .await;
}

async fn many_not_passed(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let (of_ann, of_bob) = (ann.semaphore("pool", 3), bob.semaphore("pool", 3));
    let mut held = soon("the grant", of_ann.acquire_many(2)).await.expect("they are granted");
    let many = bob.queue_up_for_permits(&of_bob, 3).await;
    let few = ann.queue_up_for_permits(&of_ann, 1).await;
    let refused = soon("the answer", of_ann.try_acquire()).await.expect("busy is no error");
    assert!(refused.is_none() && !few.is_finished(), "one is free, but a waiter wants three");
    release(held.pop().expect("there are two")).await;
    yield_now().await;
    assert!(!few.is_finished() && !many.is_finished());
    release_all(held).await;
    let all = granted(many).await;
    assert!(!few.is_finished());
    release_all(all).await;
    release_all(granted(few).await).await;
}

async fn in_order(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 4).await;
    let held = acquire(&parties[0].semaphore("pool", 1)).await;
    let mut waiting = Vec::new();
    for party in parties.iter().cycle().take(12) {
        waiting.push(party.queue_up_for_permits(&party.semaphore("pool", 1), 1).await);
    }
    release(held).await;
    waiting.reverse();
    while let Some(next) = waiting.pop() {
        let permits = granted(next).await;
        assert!(waiting.iter().all(|other| !other.is_finished()), "a waiter further behind was served too");
        release_all(permits).await;
    }
}

async fn wakes_one(fixture: &dyn Fixture) {
    const WAITERS: u64 = 8;
    let parties = enter_all(fixture, 4).await;
    let held = acquire(&parties[0].semaphore("pool", 1)).await;
    let mut waiting = Vec::new();
    for party in parties.iter().cycle().take(WAITERS as usize) {
        waiting.push(party.queue_up_for_permits(&party.semaphore("pool", 1), 1).await);
    }
    let wake_ups = || {
        let of = |party: &Party| (party.tap.changes(), party.tap.departures());
        parties.iter().map(of).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    };
    assert_eq!(wake_ups(), (0, 0), "no waiter is woken while no contender leaves");
    release(held).await;
    for (number, next) in (1..).zip(waiting) {
        let permits = granted(next).await;
        // A waiter that comes to the head after the next permit was given back need not be woken.
        let (looks, turns) = wake_ups();
        assert!(looks <= number && turns <= number, "{looks} looks and {turns} turns for {number} grants");
        release_all(permits).await;
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
}

async fn five_at_once(fixture: &dyn Fixture) {
    let in_use = Arc::new(InUse::default());
    let together = Arc::new(tokio::sync::Barrier::new(5));
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let party = Party::enter(fixture).await;
        let (semaphore, in_use, together) = (party.semaphore("pool", 5), in_use.clone(), together.clone());
        tasks.spawn(async move {
            let permit = semaphore.acquire().await.expect("it is granted");
            in_use.add(1);
            if together.wait().await.is_leader() {
                // The contenders that are not served yet had time to come in, and did not.
                party.until_contenders("pool", in_use.left()).await;
                let shown = party.keeper.contenders("pool").await.expect("the queue can be looked at");
                assert_eq!(shown.iter().filter(|contender| contender.mode == Mode::Permit).count(), 5);
            }
            together.wait().await;
            in_use.subtract(1);
            release(permit).await;
        });
    }
    soon("the end of all turns", async {
        while let Some(outcome) = tasks.join_next().await {
            outcome.expect("no task fails");
        }
    })
    .await;
    assert_eq!((in_use.now.load(Ordering::SeqCst), in_use.most.load(Ordering::SeqCst)), (0, 5));
}

async fn random_amounts(fixture: &dyn Fixture) {
    const PERMITS: u32 = 11;
    let mut random = Random::announced(RANDOM);
    let in_use = Arc::new(InUse::default());
    let mut tasks = JoinSet::new();
    let parties = enter_all(fixture, 5).await;
    for party in parties.iter().cycle().take(25) {
        let (semaphore, in_use, mut random) = (party.semaphore("pool", PERMITS), in_use.clone(), random.split());
        tasks.spawn(async move {
            for _ in 0..4 {
                let wanted = 1 + random.below(u64::from(PERMITS)) as u32;
                let permits = semaphore.acquire_many(wanted).await.expect("they are granted");
                assert_eq!(permits.len(), wanted as usize);
                in_use.add(u64::from(wanted));
                for permit in permits {
                    yield_now().await;
                    in_use.subtract(1);
                    if random.below(2) == 0 { drop(permit) } else { release(permit).await }
                }
            }
        });
    }
    soon("the end of all turns", async {
        while let Some(outcome) = tasks.join_next().await {
            outcome.expect("no task fails");
        }
    })
    .await;
    assert_eq!(in_use.now.load(Ordering::SeqCst), 0);
    let most = in_use.most.load(Ordering::SeqCst);
    assert!(most <= u64::from(PERMITS), "{most} of {PERMITS} permits were in use at once");
    parties[0].until_contenders("pool", 0).await;
}

async fn like_a_mutex(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let semaphores = [ann.semaphore("one", 1), bob.semaphore("one", 1)];
    let counter = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for semaphore in semaphores.iter().cycle().take(10) {
        let (semaphore, counter) = (semaphore.clone(), counter.clone());
        tasks.spawn(async move {
            for _ in 0..10 {
                let permit = semaphore.acquire().await.expect("it is granted");
                let read = counter.load(Ordering::Relaxed);
                yield_now().await;
                counter.store(read + 1, Ordering::Relaxed);
                // Given back by another task than the one that took it.
                tokio::spawn(release(permit)).await.expect("the task does not panic");
            }
        });
    }
    soon("the end of all turns", async {
        while let Some(outcome) = tasks.join_next().await {
            outcome.expect("no task fails");
        }
    })
    .await;
    assert_eq!(counter.load(Ordering::Relaxed), 100);
}

async fn says_no(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let held = soon("the grant", ann.semaphore("pool", 2).acquire_many(2)).await.expect("they are granted");
    let semaphore = bob.semaphore("pool", 2);
    for _ in 0..10 {
        let refused = soon("the answer", semaphore.try_acquire()).await.expect("busy is no error");
        assert!(refused.is_none());
        let refused = soon("the answer", semaphore.acquire_timeout(Duration::ZERO)).await.expect("busy is no error");
        assert!(refused.is_none(), "a timeout of zero is try_acquire");
        assert_eq!(ann.contenders("pool").await, 2);
    }
    assert_eq!((bob.tap.joins(), bob.journal.count(is_joined)), (0, 0));
    release_all(held).await;
}

async fn never_passes(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let (of_ann, of_bob, of_eve) = (ann.semaphore("pool", 2), bob.semaphore("pool", 2), eve.semaphore("pool", 2));
    for _ in 0..20 {
        let held = acquire(&of_ann).await;
        let waiting = bob.queue_up_for_permits(&of_bob, 2).await;
        release(held).await;
        let passed = soon("the answer", of_eve.try_acquire()).await.expect("busy is no error");
        assert!(passed.is_none(), "try_acquire passed a waiter");
        release_all(granted(waiting).await).await;
        ann.until_contenders("pool", 0).await;
    }
}

async fn closing_frees(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let held = soon("the grant", ann.semaphore("pool", 2).acquire_many(2)).await.expect("they are granted");
    let waiting = bob.queue_up_for_permits(&bob.semaphore("pool", 2), 2).await;
    soon("the close", ann.keeper.close()).await.expect("the service is told");
    let next = granted(waiting).await;
    assert!(held.iter().all(|permit| !permit.hold().is_held()));
    drop(held);
    assert!(next.iter().all(|permit| permit.hold().is_held()));
    release_all(next).await;
}

async fn shows_all(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let held = soon("the grant", ann.semaphore("pool", 3).acquire_many(3)).await.expect("they are granted");
    let waiting = bob.queue_up_for_permits(&bob.semaphore("pool", 3), 1).await;
    let shown = bob.keeper.contenders("pool").await.expect("the queue can be looked at");
    let modes: Vec<_> = shown.iter().map(|contender| contender.mode).collect();
    assert_eq!(modes, [Mode::Permit, Mode::Permit, Mode::Permit, Mode::Acquire]);
    for permit in &held {
        let mine = shown.iter().find(|contender| contender.id == *permit.hold().contender());
        let owner = mine.and_then(|contender| contender.owner.as_ref()).expect("it says who it is");
        assert_eq!(owner.pid, std::process::id());
    }
    release_all(held).await;
    release_all(granted(waiting).await).await;
}

async fn tokens_grow(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let semaphores = [ann.semaphore("pool", 4), bob.semaphore("pool", 4)];
    let mut last = None;
    for semaphore in semaphores.iter().cycle().take(10) {
        let permits = soon("the grant", semaphore.acquire_many(2)).await.expect("they are granted");
        for permit in &permits {
            assert!(Some(permit.fencing_token()) > last, "{} after {last:?}", permit.fencing_token());
            last = Some(permit.fencing_token());
        }
        release_all(permits).await;
    }
}

async fn makes_way(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let held = acquire(&ann.semaphore("pool", 2)).await;
    let semaphore = bob.semaphore("pool", 2);
    let ask = |time| {
        let semaphore = semaphore.clone();
        async move { semaphore.acquire_many_within(2, Wait::AtMost(time)).await }
    };
    let hasty = bob.queue_up_for_a_while(ask).await;
    let patient = eve.queue_up_for_permits(&eve.semaphore("pool", 2), 1).await;
    assert!(soon("the end of the timeout", granted(hasty)).await.is_none());
    // One is free, and the waiter for two is gone.
    release_all(granted(patient).await).await;
    release(held).await;
}
