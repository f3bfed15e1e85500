//! A future dropped at every await point, counted and not guessed.
//!
//! Each attempt is repeated, with a new session each time, and dropped after 0, 1, 2, … polls until it completes.
//! The backend yields in every call, so that every await of a recipe suspends at least once.

use std::sync::Arc;

use lockkeeper_core::{Modes, Result, Wait};
use lockkeeper_recipes::{Handoff, MultiLock};
use parking_lot::Mutex;
use tokio::task::{JoinHandle, yield_now};

use crate::ask::{Ask, Held, LOCK};
use crate::case::{Case, Runtime, using};
use crate::fixture::Fixture;
use crate::journal::is_joined;
use crate::party::{LONG, Party, Waiting, give_back, granted, parties, release};
use crate::tap::Pace;
use crate::waiting::{at_most, soon};

/// What is asked for, and how long it is waited for: where it has to be, it is granted or dropped long before.
type Attempt = (Ask, Wait);

const MUTEX: Attempt = (Ask::Mutex, Wait::Forever);
const TRY_MUTEX: Attempt = (Ask::Mutex, Wait::No);
const MUTEX_IN_TIME: Attempt = (Ask::Mutex, Wait::AtMost(LONG));
const READ: Attempt = (Ask::Read, Wait::Forever);
const PERMITS: Attempt = (Ask::Permits(2, 2), Wait::Forever);
const TRY_PERMITS: Attempt = (Ask::Permits(2, 2), Wait::No);
const PERMITS_IN_TIME: Attempt = (Ask::Permits(2, 2), Wait::AtMost(LONG));
const LEAD: Attempt = (Ask::Lead, Wait::Forever);

const FREE: Before = Before::Free;
const QUEUED: Before = Before::ReleasedOnceQueued;
const SECOND: Before = Before::SecondInLine;

pub(super) fn cases() -> Vec<Case> {
    let one_thread = |case: Case| case.runtime(Runtime::CurrentThread);
    let mutexes = vec![
        // Opening a session, joining; and asking for the departure, and waiting for it.
        dropped("lock() dropped at every await point leaves a free lock free", MUTEX, FREE, 2),
        dropped("lock() dropped at every await point leaves no waiter", MUTEX, QUEUED, 4),
        // And looking again, and two for the second departure.
        dropped("lock() dropped at every await point of a second in line leaves no waiter", MUTEX, SECOND, 7).strict(),
        // Opening a session, looking, joining.
        dropped("try_lock() dropped at every await point leaves a free lock free", TRY_MUTEX, FREE, 3),
        dropped("try_lock() dropped at every await point leaves no waiter", TRY_MUTEX, Before::Taken, 2),
        dropped("lock_timeout() dropped at every await point leaves no waiter", MUTEX_IN_TIME, QUEUED, 4),
        one_thread(
            Case::new("release() dropped at every await point releases all the same", release_dropped).given_back(),
        ),
        one_thread(Case::new("a multi-lock dropped at every await point leaves nothing", several_dropped)),
        Case::new("a runtime that ends under a waiter leaves no waiter", runtime_ends).outlives_sessions(),
    ];
    let books = vec![
        dropped("read() dropped at every await point leaves a free lock free", READ, FREE, 2),
        one_thread(Case::new("downgrade() dropped at every await point leaves nothing", downgrade_dropped)),
    ];
    let semaphores = vec![
        // Opening a session, the place among the waiters, the look at permits and number, the number, the permits; and
        // waiting for a change, and looking again.
        dropped("acquire_many() dropped at every await point leaves free permits free", PERMITS, FREE, 5),
        dropped("acquire_many() dropped at every await point leaves no waiter and no permit", PERMITS, QUEUED, 6),
        dropped("try_acquire() dropped at every await point leaves free permits free", TRY_PERMITS, FREE, 5),
        dropped("acquire_timeout() dropped at every await point leaves no waiter", PERMITS_IN_TIME, QUEUED, 6),
    ];
    let elections = vec![dropped("campaign() dropped at every await point leaves no candidate", LEAD, QUEUED, 4)];
    [
        using(Modes::MUTEX, mutexes),
        using(Modes::READ_WRITE, books),
        using(Modes::SEMAPHORE, semaphores),
        using(Modes::ELECTION, elections),
    ]
    .concat()
}

/// A case of an attempt that is dropped at each await point, of which there are so many at least.
fn dropped(name: &'static str, (ask, wait): Attempt, before: Before, least: usize) -> Case {
    // Of two permits one is held before an attempt at both.
    let hold = if matches!(ask, Ask::Permits(..)) { Ask::Permits(1, 2) } else { ask };
    let drops = async move |fixture: &dyn Fixture| {
        let attempt = async |party: Party| ask.within(&party.keeper, wait).await;
        drop_at_every_await_point(fixture, before, hold, least, attempt).await;
    };
    Case::new(name, drops).runtime(Runtime::CurrentThread)
}

async fn several_dropped(fixture: &dyn Fixture) {
    let lock = async |party: Party, names: [&str; 2]| {
        MultiLock::new(names.map(|name| party.mutex(name))).expect("the locks differ").lock().await
    };
    // Opening a session, joining the first, joining the second; and asking for the departure, and waiting for it.
    drop_at_every_await_point(fixture, FREE, Ask::Mutex, 3, async |party| lock(party, ["attic", LOCK]).await).await;
    drop_at_every_await_point(fixture, QUEUED, Ask::Mutex, 5, async |party| lock(party, [LOCK, "window"]).await).await;
    let prober = Party::enter(fixture).await;
    for name in ["attic", "window"] {
        prober.until_contenders(name, 0).await;
    }
}

async fn downgrade_dropped(fixture: &dyn Fixture) {
    // Opening a session, joining, the share.
    drop_at_every_await_point(fixture, FREE, Ask::Write, 3, async |party: Party| {
        party.rw_lock(LOCK).write().await?.downgrade().await
    })
    .await;
}

async fn release_dropped(fixture: &dyn Fixture) {
    let prober = Party::enter(fixture).await;
    for polls_max in 0..AWAIT_POINTS_MAX {
        let party = Party::enter_at(fixture, Pace::YieldOnce).await;
        let guard = party.lock(LOCK).await;
        let waiting = prober.queue_up(LOCK).await;
        let outcome = at_most(polls_max, guard.release()).await;
        release(granted(waiting).await).await;
        prober.until_contenders(LOCK, 0).await;
        if let Some(outcome) = outcome {
            outcome.expect("the lock was held");
            let await_points = polls_max - 1;
            eprintln!("release(): {await_points} await points");
            assert!(await_points >= 1, "no await point was seen");
            return;
        }
    }
    panic!("it did not complete after {AWAIT_POINTS_MAX} polls");
}

/// The runtime of another thread is dropped with the waiting future still in it.
async fn runtime_ends(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    let (ended, end) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime is built");
        runtime.block_on(async { drop(bob.queue_up(LOCK).await) });
        drop(runtime);
        // The waiting case may have given up.
        let _ = ended.send(());
    });
    soon("the runtime's end", end).await.expect("the thread does not panic");
    thread.join().expect("the thread does not panic");
    ann.until_contenders(LOCK, 1).await;
    give_back(held).await;
}

/// More await points than any attempt has, so that one that never completes is a failure and not a hang.
const AWAIT_POINTS_MAX: usize = 500;

/// How often a holder lets others run after a waiter queued up behind it, so that the waiter truly waits for it.
const YIELDS_BEFORE_RELEASE: usize = 40;

/// How the lock stands before an attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Before {
    Free,
    /// Another client holds it, to the end.
    Taken,
    /// Another client holds it until the attempt has queued up and waits.
    ReleasedOnceQueued,
    /// The same, with another waiter for the mutex in between, which goes first.
    SecondInLine,
}

/// Repeats the attempt at the lock, and drops it one await point later each time, until it completes.
/// Prints how many await points there were, and fails if they were fewer than `least`. `hold` is what is held of the
/// lock beforehand.
async fn drop_at_every_await_point<Granted>(
    fixture: &dyn Fixture,
    before: Before,
    hold: Ask,
    least: usize,
    attempt: impl AsyncFn(Party) -> Result<Granted>,
) {
    let prober = Party::enter(fixture).await;
    for polls_max in 0..AWAIT_POINTS_MAX {
        let party = Party::enter_at(fixture, Pace::YieldOnce).await;
        let held = if before == Before::Free { None } else { Some(prober.take(hold).await) };
        let holder = Holder::take(held, &prober, &party, before).await;
        let outcome = soon("an answer or a drop", at_most(polls_max, attempt(party.clone()))).await;
        let completed = outcome.is_some();
        // A guard is given back here; what was dropped earlier must be gone as well.
        drop(outcome.map(|outcome| outcome.expect("it does not fail")));
        let held_before = holder.stay().await;
        prober.until_contenders(LOCK, usize::from(held_before.is_some())).await;
        drop(held_before);
        prober.until_contenders(LOCK, 0).await;
        // What was dropped may be deleted a moment after the queue was seen empty, if its join was still under way.
        drop(prober.take(hold).await);
        prober.until_contenders(LOCK, 0).await;
        if completed {
            let await_points = polls_max.saturating_sub(1);
            eprintln!("{hold:?}, {before:?}: {await_points} await points");
            // A place that is kept is opened on another thread, in fewer polls of ours if that one is quick.
            let least = if matches!(fixture.handoff(), Handoff::Sticky { .. }) { 0 } else { least };
            assert!(await_points >= least, "{await_points} await points, {least} expected at least");
            return;
        }
    }
    panic!("it did not complete after {AWAIT_POINTS_MAX} polls");
}

/// The holder of the lock before the attempt.
struct Holder {
    guard: Arc<Mutex<Option<Held>>>,
    leaving: JoinHandle<()>,
}

impl Holder {
    async fn take(held: Option<Held>, prober: &Party, attempting: &Party, before: Before) -> Self {
        let between = AbortOnDrop(match before {
            Before::SecondInLine => Some(prober.queue_up_as(Ask::Mutex).await),
            _ => None,
        });
        let guard = Arc::new(Mutex::new(held));
        let (journal, leaving) = (attempting.journal.clone(), guard.clone());
        let leaving = tokio::spawn(async move {
            if before == Before::Free || before == Before::Taken {
                return;
            }
            journal.until_count("a join", 1, is_joined).await;
            if between.0.is_some() {
                yield_often().await;
                drop(between);
            }
            yield_often().await;
            drop(take(&leaving));
        });
        Self { guard, leaving }
    }

    /// Makes the holder stay if it has not left yet.
    async fn stay(self) -> Option<Held> {
        self.leaving.abort();
        // It was cancelled, or had ended before.
        let _ = self.leaving.await;
        take(&self.guard)
    }
}

/// A waiter that is aborted when this is dropped.
struct AbortOnDrop(Option<Waiting<Held>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(waiting) = &self.0 {
            waiting.abort();
        }
    }
}

async fn yield_often() {
    for _ in 0..YIELDS_BEFORE_RELEASE {
        yield_now().await;
    }
}

fn take(guard: &Mutex<Option<Held>>) -> Option<Held> {
    guard.lock().take()
}
