//! When to retry, and when to stop: policies with their names in Curator.
//!
//! A policy bounds attempts that failed with [`Advice::Transient`](lockkeeper_core::Advice::Transient); permanent
//! errors are never retried, and the caller's deadline ends all attempts. Delays have jitter, so that clients that lost
//! their server together do not return together. The policy is pure: it answers from the attempt, the time spent and a
//! random number. [`RetryPolicy::run`] applies it to a caller's work.

mod attempts;

use std::time::Duration;

pub use attempts::{Attempts, Failure};

/// The first delay of the default policy.
pub const DEFAULT_BASE: Duration = Duration::from_secs(1);

/// The longest delay of the default policy.
pub const DEFAULT_MAX_DELAY: Duration = Duration::from_secs(10);

/// When to retry after a failure that may pass.
///
/// In the guide: [timeouts and retries](https://docs.rs/lockkeeper/latest/lockkeeper/guide/timeouts/index.html).
///
/// ```
/// use std::time::Duration;
/// use lockkeeper::retry::RetryPolicy;
///
/// let policy = RetryPolicy::exponential_backoff(Duration::from_secs(1), Duration::from_secs(10), 3);
/// assert!(policy.delay(1, Duration::ZERO, 0).is_some());
/// assert!(policy.delay(4, Duration::ZERO, 0).is_none());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    base: Duration,
    growth: Growth,
    stop: Stop,
}

#[derive(Clone, Debug, PartialEq)]
enum Growth {
    Constant,
    Doubling { max: Duration },
}

#[derive(Clone, Debug, PartialEq)]
enum Stop {
    AfterAttempts(u32),
    AfterElapsed(Duration),
    Never,
}

impl RetryPolicy {
    /// Retries up to `retries_max` times, after delays that double from `base` up to `delay_max`.
    ///
    /// Curator's `BoundedExponentialBackoffRetry`.
    #[doc(alias = "BoundedExponentialBackoffRetry")]
    #[doc(alias = "ExponentialBackoffRetry")]
    pub fn exponential_backoff(base: Duration, delay_max: Duration, retries_max: u32) -> Self {
        Self { base, growth: Growth::Doubling { max: delay_max }, stop: Stop::AfterAttempts(retries_max) }
    }

    /// Retries up to `retries_max` times, always after `delay`.
    ///
    /// Curator's `RetryNTimes`.
    #[doc(alias = "RetryNTimes")]
    #[doc(alias = "RetryOneTime")]
    pub fn n_times(retries_max: u32, delay: Duration) -> Self {
        Self { base: delay, growth: Growth::Constant, stop: Stop::AfterAttempts(retries_max) }
    }

    /// Retries, always after `delay`, until `elapsed_max` has passed since the first attempt.
    ///
    /// Curator's `RetryUntilElapsed`.
    #[doc(alias = "RetryUntilElapsed")]
    pub fn until_elapsed(elapsed_max: Duration, delay: Duration) -> Self {
        Self { base: delay, growth: Growth::Constant, stop: Stop::AfterElapsed(elapsed_max) }
    }

    /// Retries forever, after delays that double from `base` up to `delay_max`.
    ///
    /// Curator's `RetryForever`.
    #[doc(alias = "RetryForever")]
    pub fn forever(base: Duration, delay_max: Duration) -> Self {
        Self { base, growth: Growth::Doubling { max: delay_max }, stop: Stop::Never }
    }

    /// Never retries.
    pub fn none() -> Self {
        Self::n_times(0, Duration::ZERO)
    }

    /// Returns how long to wait before the next attempt, or `None` to give up.
    ///
    /// `failed` counts the attempts that have failed (1 after the first), `elapsed` is the time since the first one
    /// began, and `random` is any random number: the result lies between half of the policy's delay and the whole of
    /// it.
    pub fn delay(&self, failed: u32, elapsed: Duration, random: u64) -> Option<Duration> {
        let goes_on = match self.stop {
            Stop::AfterAttempts(retries_max) => failed <= retries_max,
            Stop::AfterElapsed(elapsed_max) => elapsed < elapsed_max,
            Stop::Never => true,
        };
        if !goes_on {
            return None;
        }
        let whole = match self.growth {
            Growth::Constant => self.base,
            Growth::Doubling { max } => {
                let factor = 1_u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX);
                self.base.saturating_mul(factor).min(max)
            }
        };
        let half_nanos = u64::try_from(whole.as_nanos() / 2).unwrap_or(u64::MAX - 1);
        let cut = Duration::from_nanos(random % (half_nanos + 1));
        Some(whole.saturating_sub(cut))
    }
}

/// 1 s, doubling, at most 10 s apart, forever; the caller's deadline ends it.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self::forever(DEFAULT_BASE, DEFAULT_MAX_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_their_bound() {
        let policy = RetryPolicy::default();
        let delays: Vec<_> = (1..=6).map(|failed| policy.delay(failed, SECOND, 0).unwrap().as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 10, 10]);
        assert_eq!(policy.delay(u32::MAX, SECOND, 0), Some(DEFAULT_MAX_DELAY));
    }

    #[test]
    fn a_policy_of_n_times_gives_up_after_n_retries() {
        let policy = RetryPolicy::n_times(2, SECOND);
        assert_eq!(policy.delay(2, SECOND, 0), Some(SECOND));
        assert_eq!(policy.delay(3, SECOND, 0), None);
        assert_eq!(RetryPolicy::none().delay(1, Duration::ZERO, 0), None);
    }

    #[test]
    fn a_policy_until_elapsed_gives_up_when_its_time_is_over() {
        let policy = RetryPolicy::until_elapsed(3 * SECOND, SECOND);
        assert!(policy.delay(99, 2 * SECOND, 0).is_some());
        assert_eq!(policy.delay(1, 3 * SECOND, 0), None);
    }

    proptest! {
        #[test]
        fn jitter_takes_at_most_half_of_a_delay(failed in 1_u32.., random: u64) {
            let delay = RetryPolicy::default().delay(failed, SECOND, random).unwrap();
            let whole = RetryPolicy::default().delay(failed, SECOND, 0).unwrap();
            prop_assert!(delay <= whole && delay >= whole / 2);
        }
    }
}
