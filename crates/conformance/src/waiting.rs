//! Waits for what must come: each is bounded, and says what did not come; futures that are dropped after a given number
//! of polls; and waits that are measured.
//!
//! Lateness is measured by a thread that only sleeps: on a machine with other work to do it sleeps for longer, and what
//! the machine alone delays is no fault of the library. The thread is not the runtime's, so that a library which keeps
//! the runtime busy is late.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::{BootInstant, Clock};

use crate::fixture::Fixture;

/// How long a test waits for what must come soon: far longer than any hand-off, also on a machine with ten times as
/// much work as it can do, and longer than the session timeouts that services are tested with. A test that passes does
/// not wait for so long.
pub const SOON: Duration = Duration::from_secs(120);

/// The pause between two looks of [`until`]: short beside the bound, long beside a look at another process.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Waits for what must come soon; if it does not, the test fails and says what did not come.
pub async fn soon<Output>(what: &str, future: impl Future<Output = Output>) -> Output {
    match tokio::time::timeout(SOON, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not come within {SOON:?}"),
    }
}

/// Looks again and again until a condition holds whose changes are not announced. It must hold soon.
#[expect(clippy::future_not_send, reason = "a test waits in its own task")]
pub async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let looks = async {
        while !is_so().await {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    soon(what, looks).await;
}

/// Polls `future` at most `polls_max` times; `None` if it was pending each time, or if `polls_max` is 0.
///
/// The future is dropped before the answer is given.
pub async fn at_most<Running: Future>(polls_max: usize, future: Running) -> Option<Running::Output> {
    AtMost { future: Box::pin(future), polls_left: polls_max }.await
}

struct AtMost<Running> {
    future: Pin<Box<Running>>,
    polls_left: usize,
}

impl<Running: Future> Future for AtMost<Running> {
    type Output = Option<Running::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(polls_left) = self.polls_left.checked_sub(1) else {
            return Poll::Ready(None);
        };
        self.polls_left = polls_left;
        match self.future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls_left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// How long the thread sleeps at a time: short beside any bound, and beside what a busy machine lets a thread wait.
const NAP: Duration = Duration::from_millis(1);

/// A thread that only sleeps, and counts how often it has. It ends with this.
#[derive(Debug)]
struct Sleeper(Arc<AtomicU32>);

impl Sleeper {
    /// Counts from `begin` on.
    fn counting_from(begin: BootInstant, clock: Arc<dyn Clock>) -> Self {
        let naps = Arc::new(AtomicU32::new(0));
        let counted = Arc::downgrade(&naps);
        std::thread::spawn(move || {
            sleep(begin.saturating_duration_since(clock.now()));
            while counted.strong_count() > 0 {
                sleep(NAP);
                if let Some(naps) = counted.upgrade() {
                    naps.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        Self(naps)
    }

    /// How long it has slept since then: no more than has passed, and on a machine that keeps up as much.
    fn slept(&self) -> Duration {
        NAP * self.0.load(Ordering::SeqCst)
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread that only sleeps is what waits are compared with")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// A wait that was measured.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Measured {
    /// By how much it ended after its time was up, as a thread counted it that only slept.
    pub(crate) late: Duration,
    /// From the call to its end.
    pub(crate) took: Duration,
}

/// Waits, and measures the wait; it must end [`soon`].
pub(crate) async fn measured<Output>(
    fixture: &dyn Fixture,
    timeout: Duration,
    waiting: impl Future<Output = Output>,
) -> (Output, Measured) {
    let clock = fixture.clock();
    let start = clock.now();
    let sleeper = Sleeper::counting_from(start.saturating_add(timeout), clock.clone());
    let output = soon("the end of the timeout", waiting).await;
    let (late, end) = (sleeper.slept(), clock.now());
    (output, Measured { late, took: end.saturating_duration_since(start) })
}

/// Asserts that waits for a time ended in time: on a machine with other work to do a single one can be late without any
/// fault of ours, so their median counts.
pub(crate) fn assert_met(mut waits: Vec<Measured>, late_max: Duration) {
    waits.sort();
    let late = waits[waits.len() / 2].late;
    assert!(late <= late_max, "late by {late:?}; all: {waits:?}");
}

/// A clock that shows how long a thread has slept, from the present moment on.
#[derive(Debug)]
pub(crate) struct SleepersClock {
    clock: Arc<dyn Clock>,
    begin: BootInstant,
    sleeper: Arc<Sleeper>,
}

impl SleepersClock {
    pub(crate) fn start(clock: Arc<dyn Clock>) -> Self {
        let begin = clock.now();
        let sleeper = Arc::new(Sleeper::counting_from(begin, clock.clone()));
        Self { clock, begin, sleeper }
    }
}

impl Clock for SleepersClock {
    fn now(&self) -> BootInstant {
        self.begin.saturating_add(self.sleeper.slept())
    }

    fn sleep_until(&self, deadline: BootInstant) -> BoxFuture<()> {
        let (clock, begin, sleeper) = (self.clock.clone(), self.begin, self.sleeper.clone());
        Box::pin(async move {
            loop {
                let left = deadline.saturating_duration_since(begin.saturating_add(sleeper.slept()));
                if left.is_zero() {
                    return;
                }
                clock.sleep_until(clock.now().saturating_add(left)).await;
            }
        })
    }

    fn unix_time(&self) -> Duration {
        self.clock.unix_time()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::clock::SystemClock;

    use super::*;

    #[tokio::test]
    async fn a_future_with_two_await_points_is_dropped_at_each_and_then_completes() {
        let work = || async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            7
        };
        let mut outcomes = Vec::new();
        for polls_max in 0..5 {
            outcomes.push(at_most(polls_max, work()).await);
        }
        assert_eq!(outcomes, [None, None, None, Some(7), Some(7)]);
    }

    #[tokio::test]
    async fn the_thread_counts_no_more_than_has_passed_and_its_clock_goes_on() {
        let clock = SleepersClock::start(Arc::new(SystemClock));
        let begin = clock.now();
        soon("a moment", clock.sleep_until(begin.saturating_add(NAP * 20))).await;
        let shown = clock.now().saturating_duration_since(begin);
        assert!(shown >= NAP * 20, "{shown:?}");
        let passed = SystemClock.now().saturating_duration_since(begin);
        assert!(clock.now().saturating_duration_since(begin) <= passed + NAP, "{shown:?} of {passed:?}");
    }
}
