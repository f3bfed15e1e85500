//! Attempts dropped at each of their await points, which are counted and not guessed.
//!
//! Each attempt is made again and again, with a new session each time, and dropped after 0, 1, 2, … polls until it
//! completes. The backend yields in every call, so that every await of a recipe suspends at least once.

use std::sync::{Arc, Mutex, PoisonError};

use lockkeeper_core::Result;
use lockkeeper_recipes::Handoff;
use tokio::task::{JoinHandle, yield_now};

use crate::asking::{Ask, Held, LOCK};
use crate::fixture::Fixture;
use crate::journal::is_joined;
use crate::party::{Party, Waiting};
use crate::polls::at_most;
use crate::tap::Pace;
use crate::waiting::soon;

/// More await points than any attempt has, so that one that never completes is a failure and not a hang.
pub(crate) const AWAIT_POINTS_MAX: usize = 500;

/// How often a holder lets others run after a waiter queued up behind it, so that the waiter truly waits for it.
const YIELDS_BEFORE_RELEASE: usize = 40;

/// How the lock stands before an attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Before {
    Free,
    /// Another client holds it, to the end.
    Taken,
    /// Another client holds it until the attempt has queued up and waits.
    ReleasedOnceQueued,
    /// The same, with another waiter for the mutex in between, which goes first.
    SecondInLine,
}

/// Makes the attempt at the lock again and again, and drops it one await point later each time, until it completes.
/// Prints how many await points there were, and fails if they were fewer than `least`. `hold` is what is held of the
/// lock beforehand.
pub(crate) async fn drop_at_every_await_point<Granted>(
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
    guard.lock().unwrap_or_else(PoisonError::into_inner).take()
}
