//! A caller's work, called again by a policy.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, RuntimeClock};
use lockkeeper_core::{Advice, Error, Result, randomness};

use crate::retry::RetryPolicy;

type IsTransient<E> = Box<dyn Fn(&E) -> bool + Send + Sync>;

type Listener<E> = Box<dyn Fn(&Failure<'_, E>) + Send + Sync>;

/// An attempt that failed, and after which another follows.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a, E> {
    /// How many attempts have failed.
    pub attempt: u32,
    /// The time until the next one follows.
    pub delay: Duration,
    /// What went wrong.
    pub error: &'a E,
}

/// Attempts at work by a policy, with a listener; made by [`RetryPolicy::attempts`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::io;
/// use std::time::Duration;
/// use lockkeeper::retry::RetryPolicy;
///
/// let policy = RetryPolicy::n_times(5, Duration::from_millis(1));
/// let mut answers = [Err(io::ErrorKind::Interrupted.into()), Ok(42)].into_iter();
/// let answer = policy
///     .attempts(|error: &io::Error| error.kind() == io::ErrorKind::Interrupted)
///     .listener(|failure| println!("attempt {} failed: {}", failure.attempt, failure.error))
///     .run(|| std::future::ready(answers.next().expect("there are two answers")))
///     .await?;
/// assert_eq!(answer, 42);
/// # Ok(())
/// # }
/// ```
pub struct Attempts<E> {
    policy: RetryPolicy,
    clock: Arc<dyn Clock>,
    is_transient: IsTransient<E>,
    listener: Listener<E>,
}

impl RetryPolicy {
    /// Calls `work`, and calls it again by this policy while its error is transient. An attempt is over before the next
    /// one begins. The last error is returned unchanged.
    ///
    /// [`RetryPolicy::attempts`] does the same with errors of another type, and with a listener.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// use std::time::Duration;
    /// use lockkeeper::retry::RetryPolicy;
    ///
    /// # let keeper = lockkeeper::Keeper::memory();
    /// // Three attempts: after 1 s, then after 2 s; no delay would be longer than 10 s.
    /// let policy = RetryPolicy::exponential_backoff(Duration::from_secs(1), Duration::from_secs(10), 2);
    /// let guard = policy.run(|| async { keeper.mutex("reports")?.try_lock().await }).await?;
    /// assert!(guard.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// That of the work: at once if it is not [`Advice::Transient`], otherwise that of the attempt after which the
    /// policy gives up.
    ///
    /// # Cancellation
    ///
    /// Dropping the future drops the work, or the pause before its next attempt.
    pub async fn run<Work, Running, Output>(&self, work: Work) -> Result<Output>
    where
        Work: FnMut() -> Running,
        Running: Future<Output = Result<Output>>,
    {
        self.attempts(|error: &Error| error.advice() == Advice::Transient).run(work).await
    }

    /// Starts attempts by this policy at work whose errors are of any type; `is_transient` tells which of them may
    /// pass.
    pub fn attempts<E>(&self, is_transient: impl Fn(&E) -> bool + Send + Sync + 'static) -> Attempts<E> {
        Attempts {
            policy: self.clone(),
            clock: Arc::new(RuntimeClock::new()),
            is_transient: Box::new(is_transient),
            listener: Box::new(|_| {}),
        }
    }
}

impl<E> Attempts<E> {
    /// Takes time from this clock instead of the machine's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Calls this listener at each failure after which another attempt follows.
    #[must_use]
    pub fn listener(mut self, listener: impl Fn(&Failure<'_, E>) + Send + Sync + 'static) -> Self {
        self.listener = Box::new(listener);
        self
    }

    /// Calls `work` until it succeeds, fails permanently, or the policy gives up, as [`RetryPolicy::run`] does.
    pub async fn run<Work, Running, Output>(&self, mut work: Work) -> Result<Output, E>
    where
        Work: FnMut() -> Running,
        Running: Future<Output = Result<Output, E>>,
    {
        let started = self.clock.now();
        let mut attempt = 0_u32;
        loop {
            let error = match work().await {
                Ok(output) => return Ok(output),
                Err(error) => error,
            };
            attempt = attempt.saturating_add(1);
            let now = self.clock.now();
            let random = randomness::spread();
            let next = self.policy.delay(attempt, now.saturating_duration_since(started), random);
            let Some(delay) = next.filter(|_| (self.is_transient)(&error)) else {
                return Err(error);
            };
            (self.listener)(&Failure { attempt, delay, error: &error });
            drop(error);
            self.clock.sleep_until(now.saturating_add(delay)).await;
        }
    }
}

impl<E> fmt::Debug for Attempts<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Attempts").field(&self.policy).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Mutex as StdMutex;

    use super::*;
    use lockkeeper_core::clock::{SystemClock, TestClock};
    use lockkeeper_core::{ErrorKind, Operation};

    const SECOND: Duration = Duration::from_secs(1);

    fn transient() -> Error {
        Error::transient(ErrorKind::ConnectionLost, Operation::Connect, "refused")
    }

    /// The pauses between the calls of work that always fails with this error, and those that the listener was told.
    async fn pauses(policy: &RetryPolicy, error: fn() -> Error) -> (Vec<Duration>, Vec<Duration>) {
        let clock = Arc::new(TestClock::new());
        let told = Arc::new(StdMutex::new(Vec::new()));
        let heard = told.clone();
        let calls = StdMutex::new(Vec::new());
        let attempts = policy
            .attempts(|error: &Error| error.advice() == Advice::Transient)
            .clock(clock.clone())
            .listener(move |failure| heard.lock().unwrap().push(failure.delay));
        let outcome = attempts.run(|| {
            calls.lock().unwrap().push(clock.now());
            async { Err::<(), _>(error()) }
        });
        outcome.await.unwrap_err();
        let calls = std::mem::take(&mut *calls.lock().unwrap());
        let pauses = calls.windows(2).map(|two| two[1].saturating_duration_since(two[0])).collect();
        (pauses, std::mem::take(&mut *told.lock().unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_called_three_times_with_doubling_pauses_and_the_listener_is_told_of_each() {
        let policy = RetryPolicy::exponential_backoff(SECOND, 10 * SECOND, 2);
        let (pauses, told) = pauses(&policy, transient).await;
        assert_eq!(pauses.len(), 2);
        for (pause, whole) in pauses.iter().zip([SECOND, 2 * SECOND]) {
            assert!((whole / 2..=whole + SECOND / 100).contains(pause), "{pause:?}");
        }
        assert_eq!(told.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_that_does_not_pass_is_returned_at_once() {
        let policy = RetryPolicy::forever(SECOND, SECOND);
        let permanent = || Error::permanent(ErrorKind::Refused, Operation::Join, "no");
        assert_eq!(pauses(&policy, permanent).await, (vec![], vec![]));
        let unknown = || Error::unknown(ErrorKind::ConnectionLost, Operation::Join, "the reply was lost");
        assert_eq!(pauses(&policy, unknown).await, (vec![], vec![]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_until_elapsed_ends_the_attempts_when_its_time_is_over() {
        let (pauses, _) = pauses(&RetryPolicy::until_elapsed(5 * SECOND, SECOND), transient).await;
        let took: Duration = pauses.iter().sum();
        assert!((5 * SECOND..=6 * SECOND).contains(&took), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_succeeds_at_last_is_returned() {
        let failures = Cell::new(3);
        let policy = RetryPolicy::forever(SECOND, SECOND);
        let (begun, real) = (tokio::time::Instant::now(), SystemClock.now());
        let output = policy.run(|| async {
            match failures.replace(failures.get() - 1) {
                0 => Ok(42),
                _ => Err(transient()),
            }
        });
        assert_eq!(output.await.unwrap(), 42);
        let took = begun.elapsed();
        assert!((3 * SECOND / 2..=3 * SECOND + SECOND / 100).contains(&took), "{took:?} of paused time");
        assert!(SystemClock.now().saturating_duration_since(real) < SECOND, "it waits for no real time");
    }
}
