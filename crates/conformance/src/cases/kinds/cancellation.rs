//! A future dropped at every await point, counted and not guessed.

use std::time::Duration;

use lockkeeper_core::Result;
use lockkeeper_recipes::MutexGuard;
use tokio::task::yield_now;

use crate::case::{Case, Runtime};
use crate::dropped::{AWAIT_POINTS_MAX, Before, drop_at_every_await_point};
use crate::fixture::Fixture;
use crate::party::{Party, granted, release};
use crate::polls::at_most;
use crate::tap::Pace;
use crate::waiting::soon;

/// How long a waiter may wait, where it has to: it is granted or dropped long before.
const LONG: Duration = Duration::from_secs(3600);

pub(super) fn cases() -> Vec<Case> {
    let one_thread = |case: Case| case.runtime(Runtime::CurrentThread);
    vec![
        one_thread(Case::new("lock() dropped at every await point leaves a free lock free", lock_free)),
        one_thread(Case::new("lock() dropped at every await point leaves no waiter", lock_taken)),
        one_thread(
            Case::new("lock() dropped at every await point of a second in line leaves no waiter", lock_second).strict(),
        ),
        one_thread(Case::new("try_lock() dropped at every await point leaves a free lock free", try_free)),
        one_thread(Case::new("try_lock() dropped at every await point leaves no waiter", try_taken)),
        one_thread(Case::new("lock_timeout() dropped at every await point leaves a free lock free", timeout_free)),
        one_thread(Case::new("lock_timeout() dropped at every await point leaves no waiter", timeout_taken)),
        one_thread(Case::new("run() dropped at every await point leaves a free lock free", run_free).given_back()),
        one_thread(Case::new("run() dropped at every await point leaves no waiter", run_taken)),
        one_thread(
            Case::new("release() dropped at every await point releases all the same", release_dropped).given_back(),
        ),
        Case::new("a runtime that ends under a waiter leaves no waiter", runtime_ends).outlives_sessions(),
    ]
}

/// Takes the lock for the holder that is there before an attempt.
async fn hold(prober: Party) -> MutexGuard {
    prober.lock("door").await
}

async fn lock_free(fixture: &dyn Fixture) {
    let lock = async |party: Party| party.mutex("door").lock().await.map(Some);
    // Opening a session, joining.
    drop_at_every_await_point(fixture, "lock()", Before::Free, hold, 2, lock).await;
}

async fn lock_taken(fixture: &dyn Fixture) {
    let lock = async |party: Party| party.mutex("door").lock().await.map(Some);
    // Opening a session, joining, asking for the departure, waiting for it.
    drop_at_every_await_point(fixture, "lock()", Before::ReleasedOnceQueued, hold, 4, lock).await;
}

async fn lock_second(fixture: &dyn Fixture) {
    let lock = async |party: Party| party.mutex("door").lock().await.map(Some);
    // Opening a session, joining, two for the first departure, looking again, two for the second departure.
    drop_at_every_await_point(fixture, "lock()", Before::SecondInLine, hold, 7, lock).await;
}

async fn try_free(fixture: &dyn Fixture) {
    // Opening a session, looking, joining.
    drop_at_every_await_point(fixture, "try_lock()", Before::Free, hold, 3, async |party: Party| {
        party.mutex("door").try_lock().await
    })
    .await;
}

async fn try_taken(fixture: &dyn Fixture) {
    // Opening a session, looking.
    drop_at_every_await_point(fixture, "try_lock()", Before::Taken, hold, 2, async |party: Party| {
        party.mutex("door").try_lock().await
    })
    .await;
}

async fn timeout_free(fixture: &dyn Fixture) {
    let lock = async |party: Party| party.mutex("door").lock_timeout(LONG).await;
    drop_at_every_await_point(fixture, "lock_timeout()", Before::Free, hold, 2, lock).await;
}

async fn timeout_taken(fixture: &dyn Fixture) {
    let lock = async |party: Party| party.mutex("door").lock_timeout(LONG).await;
    drop_at_every_await_point(fixture, "lock_timeout()", Before::ReleasedOnceQueued, hold, 4, lock).await;
}

async fn work_under(party: Party) -> Result<Option<MutexGuard>> {
    let work = async {
        yield_now().await;
        yield_now().await;
    };
    party.mutex("door").run(|_| work).await.map(|()| None)
}

async fn run_free(fixture: &dyn Fixture) {
    // Opening a session, joining, two in the work, the release.
    drop_at_every_await_point(fixture, "run()", Before::Free, hold, 5, work_under).await;
}

async fn run_taken(fixture: &dyn Fixture) {
    drop_at_every_await_point(fixture, "run()", Before::ReleasedOnceQueued, hold, 7, work_under).await;
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
        // The waiting case may have given up.
        let _ = ended.send(());
    });
    soon("the runtime's end", end).await.expect("the thread does not panic");
    thread.join().expect("the thread does not panic");
    ann.until_contenders("door", 1).await;
    release(guard).await;
}
