//! One holder at a time, and as many locks as there are names; each grant with a greater fencing token; and calls
//! without a wait, which take only what is free.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::{FencingToken, Modes, Wait};
use tokio::task::{JoinSet, yield_now};

use crate::ask::{Ask, LOCK};
use crate::case::{Case, using};
use crate::fixture::Fixture;
use crate::journal::is_joined;
use crate::party::{Party, all_done, enter_all, give_back, granted, parties, release};
use crate::waiting::soon;

const KEEPERS: usize = 3;
const TASKS: usize = 12;
const ROUNDS: u64 = 25;

/// How many locks one keeper must hold at once. A backend that needs a file descriptor for each barely fits into the
/// usual 1024, and has to raise its own limit.
const LOCKS_AT_ONCE: usize = 1_000;

pub(super) fn cases() -> Vec<Case> {
    let mutexes = vec![
        Case::with("a counter incremented under the lock loses no increment", Ask::Mutex, count_up),
        Case::new("a lock held through one keeper is taken for all others", taken_for_others).given_back(),
        Case::new("a task that locks twice through one keeper waits for itself", not_reentrant).strict(),
        Case::new("a thousand different locks are held at once by one keeper", thousand_locks),
    ];
    let one_permit =
        Case::new("a semaphore of one permit excludes like a mutex, and any task may give it back", async |fixture| {
            count_up(fixture, Ask::Permits(1, 1)).await;
        });
    [using(Modes::MUTEX, mutexes), vec![one_permit.uses(Modes::SEMAPHORE)]].concat()
}

/// The increment is not atomic: it reads, lets others run, and writes.
async fn count_up(fixture: &dyn Fixture, ask: Ask) {
    let counter = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for party in enter_all(fixture, KEEPERS).await.iter().cycle().take(TASKS) {
        let (party, counter) = (party.clone(), counter.clone());
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let held = party.take(ask).await;
                let read = counter.load(Ordering::Relaxed);
                yield_now().await;
                counter.store(read + 1, Ordering::Relaxed);
                // Given back by another task than the one that took it.
                tokio::spawn(give_back(held)).await.expect("the task does not panic");
            }
        });
    }
    all_done(tasks).await;
    assert_eq!(counter.load(Ordering::Relaxed), TASKS as u64 * ROUNDS);
}

async fn taken_for_others(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock(LOCK).await;
    assert!(bob.try_lock(LOCK).await.is_none());
    assert!(bob.try_lock("window").await.is_some());
    release(guard).await;
    assert!(bob.try_lock(LOCK).await.is_some());
}

async fn not_reentrant(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    assert!(ann.tried(Ask::Mutex).await.is_none());
    let waiting = ann.queue_up_as(Ask::Mutex).await;
    ann.until_contenders(LOCK, 2).await;
    assert!(!waiting.is_finished());
    give_back(held).await;
    give_back(granted(waiting).await).await;
}

async fn thousand_locks(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mut guards = Vec::with_capacity(LOCKS_AT_ONCE);
    for number in 0..LOCKS_AT_ONCE {
        guards.push(ann.lock(&format!("lock {number}")).await);
    }
    assert!(guards.iter().all(|guard| guard.hold().is_held()));
    assert!(bob.try_lock("lock 0").await.is_none());
    assert!(bob.try_lock("lock 999").await.is_none());
    let queues = soon("the names", ann.keeper.admin().queues("lock ")).await.expect("the queues are named");
    assert_eq!(queues.len(), LOCKS_AT_ONCE);
    drop(guards);
    release(bob.lock("lock 999").await).await;
}

const GRANTS: usize = 20;

pub(super) fn tokens() -> Vec<Case> {
    vec![
        Case::new("tokens grow over grants and over keepers", over_grants_and_keepers),
        Case::new("tokens grow over sessions and over an empty queue", over_sessions),
        Case::new("a look at the queue shows the token of its guard", shown),
        Case::new("each lock's tokens grow while others are locked", several_locks).given_back(),
    ]
}

struct Growing(Option<FencingToken>);

impl Growing {
    fn take(&mut self, token: FencingToken) {
        assert!(Some(token) > self.0, "{token} after {:?}", self.0);
        assert_eq!(token.turn(), 0, "nothing was handed on inside the process");
        self.0 = Some(token);
    }
}

async fn over_grants_and_keepers(fixture: &dyn Fixture) {
    let parties = [Party::enter(fixture).await, Party::enter(fixture).await];
    let mut growing = Growing(None);
    for party in parties.iter().cycle().take(GRANTS) {
        let guard = party.lock("door").await;
        growing.take(guard.fencing_token());
        release(guard).await;
    }
}

async fn over_sessions(fixture: &dyn Fixture) {
    let mut growing = Growing(None);
    for _ in 0..GRANTS {
        let party = Party::enter(fixture).await;
        let guard = party.lock("door").await;
        growing.take(guard.fencing_token());
        soon("the close", party.keeper.close()).await.expect("the service is told");
        drop(guard);
    }
}

async fn shown(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let guard = ann.lock("door").await;
    let contenders = ann.shown("door").await;
    let [holder] = contenders.as_slice() else {
        panic!("one contender, not {}", contenders.len());
    };
    assert_eq!(holder.id, *guard.hold().contender());
    // A service need not show tokens; if it does, they are the true ones.
    if let Some(token) = holder.token {
        assert_eq!(token, guard.fencing_token());
    }
    release(guard).await;
}

async fn several_locks(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let (mut doors, mut windows) = (Growing(None), Growing(None));
    for _ in 0..GRANTS {
        let (door, window) = (ann.lock("door").await, ann.lock("window").await);
        doors.take(door.fencing_token());
        windows.take(window.fencing_token());
        release(door).await;
        release(window).await;
    }
}

const TRIES: usize = 20;

const ONE: Ask = Ask::Permits(1, 2);
const BOTH: Ask = Ask::Permits(2, 2);

pub(super) fn tries() -> Vec<Case> {
    let mutexes = vec![
        Case::new("try_lock takes a free lock", takes_a_free_one),
        Case::with("try_lock of a taken lock says no and joins nothing", [Ask::Mutex; 2], says_no).given_back(),
        Case::with("try_lock never passes a waiter", [Ask::Mutex; 3], never_passes),
        Case::new("of 20 tries at a free lock at the same time one takes it", one_takes_it),
    ];
    let book = Case::new("try_read and try_write never pass a waiter, and join nothing in vain", async |fixture| {
        for tries in [Ask::Read, Ask::Write] {
            let eve = is_not_passed(fixture, [Ask::Read, Ask::Write, tries]).await;
            assert_eq!((eve.tap.joins(), eve.journal.count(is_joined)), (0, 0));
        }
    });
    let semaphores = vec![
        Case::with("try_acquire of a semaphore without free permits says no and joins nothing", [BOTH, ONE], says_no),
        Case::with("try_acquire never passes a waiter", [ONE, BOTH, ONE], never_passes),
    ];
    let (lead, asks) =
        ("campaign_within(Wait::No) leads if there is no other candidate, and leaves none", [Ask::Lead; 2]);
    [
        using(Modes::MUTEX, mutexes),
        vec![book.given_back().uses(Modes::READ_WRITE)],
        using(Modes::SEMAPHORE, semaphores),
        vec![Case::with(lead, asks, says_no).uses(Modes::ELECTION)],
    ]
    .concat()
}

async fn takes_a_free_one(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    for _ in 0..TRIES {
        let held = ann.tried(Ask::Mutex).await.expect("the lock is free");
        assert!(held.is_held());
        assert_eq!(ann.contenders(LOCK).await, 1);
        give_back(held).await;
    }
}

/// A wait of no time is no wait.
async fn says_no(fixture: &dyn Fixture, [holds, asks]: [Ask; 2]) {
    let [ann, bob] = parties(fixture).await;
    let waits = [Wait::No, Wait::AtMost(Duration::ZERO)];
    for wait in waits {
        let free = soon("the answer", holds.within(&ann.keeper, wait)).await.expect("it does not fail");
        give_back(free.expect("it is free")).await;
        ann.until_contenders(LOCK, 0).await;
    }
    let held = ann.tried(holds).await.expect("it is free");
    ann.until_contenders(LOCK, held.holds().len()).await;
    for _ in 0..TRIES {
        for wait in waits {
            let refused = soon("the answer", asks.within(&bob.keeper, wait)).await.expect("busy is no error");
            assert!(refused.is_none(), "it is taken");
        }
        assert_eq!(ann.contenders(LOCK).await, held.holds().len());
    }
    assert_eq!((bob.tap.joins(), bob.journal.count(is_joined)), (0, 0), "what is taken costs no join");
    give_back(held).await;
}

/// The waiter comes before a caller that only tries, whether it has heard of the release or not. Returns the party that
/// tried.
async fn is_not_passed(fixture: &dyn Fixture, [holds, waits, tries]: [Ask; 3]) -> Party {
    let [ann, bob, eve] = parties(fixture).await;
    for _ in 0..TRIES {
        let held = ann.take(holds).await;
        let waiting = bob.queue_up_as(waits).await;
        assert!(eve.tried(tries).await.is_none(), "{tries:?} passed a holder and a waiter");
        give_back(held).await;
        assert!(eve.tried(tries).await.is_none(), "{tries:?} passed a waiter");
        give_back(granted(waiting).await).await;
        ann.until_contenders(LOCK, 0).await;
    }
    eve
}

async fn never_passes(fixture: &dyn Fixture, asks: [Ask; 3]) {
    is_not_passed(fixture, asks).await;
}

/// Some calls share a keeper, others use another one.
async fn one_takes_it(fixture: &dyn Fixture) {
    let parties: [Party; 2] = parties(fixture).await;
    for _ in 0..TRIES {
        let mut tries = Vec::new();
        for party in parties.iter().cycle().take(20) {
            let party = party.clone();
            tries.push(tokio::spawn(async move { party.tried(Ask::Mutex).await }));
        }
        let mut held = Vec::new();
        for task in tries {
            held.extend(task.await.expect("the task does not panic"));
        }
        assert_eq!(held.len(), 1, "the first to come finds no contender before it");
        give_back(held.remove(0)).await;
        parties[0].until_contenders(LOCK, 0).await;
    }
}
