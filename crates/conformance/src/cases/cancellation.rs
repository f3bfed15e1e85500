//! A future dropped at every await point, counted and not guessed.
//!
//! Each attempt is made again and again, with a new session each time, and dropped after 0, 1, 2, … polls until it
//! completes. The backend yields in every call, so that every await of a recipe suspends at least once.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use lockkeeper_core::{Mutex, MutexGuard, Result};
use tokio::task::{JoinHandle, yield_now};

use crate::case::{Case, Runtime};
use crate::fixture::Fixture;
use crate::party::{Party, Waiting, granted, is_joined, release, soon};
use crate::polls::at_most;
use crate::tap::Pace;

/// More await points than any attempt has, so that one that never completes is a failure and not a hang.
const AWAIT_POINTS_MAX: usize = 500;

/// How often a holder lets others run after somebody queued up behind it, so that the waiter truly waits for it.
const YIELDS_BEFORE_RELEASE: usize = 40;

/// How long a waiter may wait, where it has to: it is granted or dropped long before.
const LONG: Duration = Duration::from_secs(3600);

pub(super) fn cases() -> Vec<Case> {
    let one_thread = |case: Case| case.runtime(Runtime::CurrentThread);
    vec![
        one_thread(Case::new("lock() dropped at every await point leaves a free lock free", lock_free)),
        one_thread(Case::new("lock() dropped at every await point leaves no waiter", lock_taken)),
        one_thread(Case::new("lock() dropped at every await point of a second in line leaves no waiter", lock_second)),
        one_thread(Case::new("try_lock() dropped at every await point leaves a free lock free", try_free)),
        one_thread(Case::new("try_lock() dropped at every await point leaves no waiter", try_taken)),
        one_thread(Case::new("lock_timeout() dropped at every await point leaves a free lock free", timeout_free)),
        one_thread(Case::new("lock_timeout() dropped at every await point leaves no waiter", timeout_taken)),
        one_thread(Case::new("run() dropped at every await point leaves a free lock free", run_free)),
        one_thread(Case::new("run() dropped at every await point leaves no waiter", run_taken)),
        one_thread(Case::new("release() dropped at every await point releases all the same", release_dropped)),
        Case::new("a runtime that ends under a waiter leaves no waiter", runtime_ends),
    ]
}

async fn lock_free(fixture: &dyn Fixture) {
    let lock = async |mutex: Mutex| mutex.lock().await.map(Some);
    // Opening a session, joining.
    drop_at_every_await_point(fixture, "lock()", Before::Free, 2, lock).await;
}

async fn lock_taken(fixture: &dyn Fixture) {
    let lock = async |mutex: Mutex| mutex.lock().await.map(Some);
    // Opening a session, joining, asking for the departure, waiting for it.
    drop_at_every_await_point(fixture, "lock()", Before::ReleasedOnceQueued, 4, lock).await;
}

async fn lock_second(fixture: &dyn Fixture) {
    let lock = async |mutex: Mutex| mutex.lock().await.map(Some);
    // Opening a session, joining, two for the first departure, looking again, two for the second departure.
    drop_at_every_await_point(fixture, "lock()", Before::SecondInLine, 7, lock).await;
}

async fn try_free(fixture: &dyn Fixture) {
    // Opening a session, looking, joining.
    drop_at_every_await_point(fixture, "try_lock()", Before::Free, 3, async |mutex: Mutex| mutex.try_lock().await)
        .await;
}

async fn try_taken(fixture: &dyn Fixture) {
    // Opening a session, looking.
    drop_at_every_await_point(fixture, "try_lock()", Before::Taken, 2, async |mutex: Mutex| mutex.try_lock().await)
        .await;
}

async fn timeout_free(fixture: &dyn Fixture) {
    let lock = async |mutex: Mutex| mutex.lock_timeout(LONG).await;
    drop_at_every_await_point(fixture, "lock_timeout()", Before::Free, 2, lock).await;
}

async fn timeout_taken(fixture: &dyn Fixture) {
    let lock = async |mutex: Mutex| mutex.lock_timeout(LONG).await;
    drop_at_every_await_point(fixture, "lock_timeout()", Before::ReleasedOnceQueued, 4, lock).await;
}

async fn work_under(mutex: Mutex) -> Result<Option<MutexGuard>> {
    let work = async {
        yield_now().await;
        yield_now().await;
    };
    mutex.run(|_| work).await.map(|()| None)
}

async fn run_free(fixture: &dyn Fixture) {
    // Opening a session, joining, two in the work, the release.
    drop_at_every_await_point(fixture, "run()", Before::Free, 5, work_under).await;
}

async fn run_taken(fixture: &dyn Fixture) {
    drop_at_every_await_point(fixture, "run()", Before::ReleasedOnceQueued, 7, work_under).await;
}

/// How the lock stands before an attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Before {
    Free,
    /// Another holds it, to the end.
    Taken,
    /// Another holds it until the attempt has queued up and waits.
    ReleasedOnceQueued,
    /// The same, with another waiter in between that goes first.
    SecondInLine,
}

/// Makes the attempt again and again, dropped one await point later each time, and prints how many there were.
async fn drop_at_every_await_point<Attempt>(
    fixture: &dyn Fixture,
    what: &str,
    before: Before,
    least: usize,
    attempt: Attempt,
) where
    Attempt: AsyncFn(Mutex) -> Result<Option<MutexGuard>>,
{
    let prober = Party::enter(fixture).await;
    for polls_max in 0..AWAIT_POINTS_MAX {
        let party = Party::enter_at(fixture, Pace::YieldOnce).await;
        let holder = Holder::take(&prober, &party, before).await;
        let outcome = soon("an answer or a drop", at_most(polls_max, attempt(party.mutex("door")))).await;
        let completed = outcome.is_some();
        // A guard is given back here; what was dropped earlier is to be gone as well.
        drop(outcome.map(|outcome| outcome.expect("it does not fail")));
        let held_before = holder.stay().await;
        prober.until_contenders("door", usize::from(held_before.is_some())).await;
        drop(held_before);
        prober.until_contenders("door", 0).await;
        // What was dropped may be deleted a moment after the queue was seen empty, if its join was still under way.
        release(prober.lock("door").await).await;
        if completed {
            let await_points = polls_max.saturating_sub(1);
            eprintln!("{what}, lock {before:?}: {await_points} await points");
            assert!(await_points >= least, "{await_points} await points, {least} expected at least");
            return;
        }
    }
    panic!("it did not complete after {AWAIT_POINTS_MAX} polls");
}

/// Whoever holds the lock before the attempt.
struct Holder {
    guard: Arc<StdMutex<Option<MutexGuard>>>,
    leaving: JoinHandle<()>,
}

impl Holder {
    async fn take(prober: &Party, attempting: &Party, before: Before) -> Self {
        let guard = match before {
            Before::Free => None,
            _ => Some(prober.lock("door").await),
        };
        let between = AbortOnDrop(match before {
            Before::SecondInLine => Some(prober.queue_up("door").await),
            _ => None,
        });
        let guard = Arc::new(StdMutex::new(guard));
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

    /// Has the holder stay if it has not left yet.
    async fn stay(self) -> Option<MutexGuard> {
        self.leaving.abort();
        // It was cancelled, or had ended before.
        let _ = self.leaving.await;
        take(&self.guard)
    }
}

/// A waiter that goes when whoever lets it go does.
struct AbortOnDrop(Option<Waiting>);

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

fn take(guard: &StdMutex<Option<MutexGuard>>) -> Option<MutexGuard> {
    guard.lock().unwrap_or_else(PoisonError::into_inner).take()
}

async fn release_dropped(fixture: &dyn Fixture) {
    let prober = Party::enter(fixture).await;
    for polls_max in 0..AWAIT_POINTS_MAX {
        let party = Party::enter_at(fixture, Pace::YieldOnce).await;
        let guard = party.lock("door").await;
        let waiting = prober.queue_up("door").await;
        let outcome = at_most(polls_max, guard.release()).await;
        release(granted(waiting).await).await;
        prober.until_contenders("door", 0).await;
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
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let (ended, end) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime is built");
        runtime.block_on(async { drop(bob.queue_up("door").await) });
        drop(runtime);
        // Whoever waited for it may have given up.
        let _ = ended.send(());
    });
    soon("the runtime's end", end).await.expect("the thread does not panic");
    thread.join().expect("the thread does not panic");
    ann.until_contenders("door", 1).await;
    release(guard).await;
}
