//! The time that a call waits, and the pauses between attempts that fail one after the other: each twice as long as the
//! one before, up to a limit.

use std::time::Duration;

use crate::clock::{BootInstant, Clock};
use crate::randomness;

/// How long a caller waits for what it asks for.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// use std::time::Duration;
///
/// use lockkeeper::Wait;
///
/// # let keeper = lockkeeper::Keeper::memory();
/// let slots = keeper.semaphore("slots", 3)?;
/// let three = slots.acquire_many(3).await?;
/// assert!(slots.acquire_many_within(2, Wait::No).await?.is_none());
/// assert!(slots.acquire_many_within(2, Wait::AtMost(Duration::from_millis(1))).await?.is_none());
/// # drop(three);
/// # Ok(())
/// # }
/// ```
///
/// It is exhaustive: each wait ends in one of these ways.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "each wait ends in one of these ways")]
pub enum Wait {
    /// Not at all: only what is to be had at once.
    No,
    /// This long, counted from the call; a time of zero is [`Wait::No`].
    AtMost(Duration),
    /// Until this moment of the keeper's clock; a moment that has passed leaves no time, but is no [`Wait::No`].
    Until(BootInstant),
    /// However long it takes.
    Forever,
}

impl Wait {
    /// Tells whether there is no time at all: only what is to be had at once counts.
    pub const fn is_none(self) -> bool {
        matches!(self, Self::No | Self::AtMost(Duration::ZERO))
    }

    /// Fixes when a wait that begins now ends, for callers that wait for several things in a row.
    #[must_use]
    pub fn starting(self, now: BootInstant) -> Self {
        match self {
            _ if self.is_none() => Self::No,
            Self::AtMost(time) => Self::Until(now.saturating_add(time)),
            Self::No | Self::Until(_) | Self::Forever => self,
        }
    }

    /// Returns when a wait that begins now ends; `None` if it has no end.
    pub fn deadline(self, now: BootInstant) -> Option<BootInstant> {
        match self {
            Self::No => Some(now),
            Self::AtMost(time) => Some(now.saturating_add(time)),
            Self::Until(deadline) => Some(deadline),
            Self::Forever => None,
        }
    }
}

/// By how much a pause is longer than the one before, once it grows again.
const LENGTHENED_BY: Duration = Duration::from_millis(20);

/// The pauses of one row of attempts.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    next: Duration,
    /// Up to this each pause is twice the one before.
    doubled_max: Duration,
    /// How many more pauses are as long as that, before they grow slowly.
    steady: u16,
    max: Duration,
}

impl Backoff {
    /// Between attempts to reach a service that a session or a look needs: a server that comes back is found within
    /// half a second, and after minutes within two, since thousands may wait for it then. The pauses grow after 150 s
    /// at the earliest, by their jitter.
    pub const CONNECTING: Self = Self {
        next: Duration::from_millis(20),
        doubled_max: Duration::from_millis(500),
        steady: 400,
        max: Duration::from_secs(2),
    };

    /// Between requests that a service turns away since it has more to do than it can. Thousands may ask: what is
    /// refused takes its time too.
    pub const OVERLOADED: Self = Self::new(Duration::from_millis(500), Duration::from_secs(5));

    /// Between attempts of a contender to leave its queue that the service refuses: only an operator can help.
    pub const LEAVING: Self = Self::new(Duration::from_millis(500), Duration::from_secs(10));

    /// Pauses from `first` up to `max`.
    #[must_use]
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { next: first, doubled_max: max, steady: 0, max }
    }

    /// Returns the next pause, without jitter.
    #[must_use]
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        if pause < self.doubled_max {
            self.next = (pause * 2).min(self.doubled_max);
        } else if self.steady > 0 {
            self.steady -= 1;
        } else {
            self.next = (pause + LENGTHENED_BY).min(self.max);
        }
        pause
    }

    /// Waits for as long as the next pause, with jitter.
    pub async fn rest(&mut self, clock: &dyn Clock) {
        let pause = jittered(self.pause(), randomness::spread());
        clock.sleep_until(clock.now().saturating_add(pause)).await;
    }
}

/// What part of a pause jitter takes at most: a service that is away is asked a third more often at worst, and after a
/// minute of it no two clients ask at the same moments.
const JITTER_DIVISOR: u32 = 4;

/// A pause between three quarters of this and all of it. Clients that lost their service together come back at
/// different moments, and none later than without jitter.
#[must_use]
pub fn jittered(whole: Duration, random: u64) -> Duration {
    let taken_max_nanos = u64::try_from((whole / JITTER_DIVISOR).as_nanos()).unwrap_or(u64::MAX - 1);
    whole - Duration::from_nanos(random % (taken_max_nanos + 1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::clock::TestClock;

    const NOW: BootInstant = BootInstant::from_nanos(1_000);

    #[test]
    fn a_wait_that_begins_now_ends_after_its_time() {
        let later = BootInstant::from_nanos(1_005);
        let five = Wait::AtMost(Duration::from_nanos(5));
        assert_eq!(five.starting(NOW), Wait::Until(later));
        assert_eq!(five.deadline(NOW), Some(later));
        assert_eq!(Wait::No.deadline(NOW), Some(NOW));
        assert_eq!(Wait::Forever.deadline(NOW), None);
    }

    #[test]
    fn a_wait_of_no_time_is_no_wait() {
        assert_eq!(Wait::AtMost(Duration::ZERO).starting(NOW), Wait::No);
        assert_eq!(Wait::AtMost(Duration::MAX).starting(NOW).deadline(NOW), Some(NOW.saturating_add(Duration::MAX)));
    }

    #[test]
    fn a_fixed_wait_stays_what_it_is_when_it_is_fixed_again() {
        let later = BootInstant::from_nanos(9_000);
        for wait in [Wait::No, Wait::AtMost(Duration::from_secs(1)), Wait::Until(later), Wait::Forever] {
            assert_eq!(wait.starting(NOW).starting(later), wait.starting(NOW));
        }
    }

    #[test]
    fn pauses_double_up_to_their_limit() {
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(70));
        let pauses = [(); 4].map(|()| backoff.pause().as_millis());
        assert_eq!(pauses, [20, 40, 70, 70]);
    }

    #[test]
    fn a_service_that_is_away_for_minutes_is_asked_less_often() {
        let (mut backoff, mut away) = (Backoff::CONNECTING, Duration::ZERO);
        for (after_s, expected_ms) in [(1, 500..=500), (150, 500..=500), (300, 1_700..=2_000), (3_600, 2_000..=2_000)] {
            let mut pause = Duration::ZERO;
            while away < Duration::from_secs(after_s) {
                pause = backoff.pause();
                away += pause;
            }
            assert!(expected_ms.contains(&pause.as_millis()), "{pause:?} after {after_s} s");
        }
    }

    #[test]
    fn jitter_takes_up_to_a_quarter_of_a_pause() {
        let whole = Duration::from_millis(500);
        let pauses = [0, 7, 125_000_000, u64::MAX].map(|random| jittered(whole, random));
        assert!(pauses.iter().all(|pause| (whole * 3 / 4..=whole).contains(pause)), "{pauses:?}");
        assert_eq!((pauses[0], pauses[2]), (whole, whole * 3 / 4));
        assert_eq!(jittered(Duration::ZERO, 7), Duration::ZERO);
        assert!(jittered(Duration::MAX, 7) > Duration::MAX / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_lost_their_service_together_ask_for_it_at_different_moments() {
        randomness::seed_this_thread(7);
        let clock = TestClock::new();
        let begun = clock.now();
        let asking = async || {
            let (mut backoff, mut asked) = (Backoff::CONNECTING, BTreeSet::new());
            while clock.now() < begun.saturating_add(Duration::from_secs(60)) {
                backoff.rest(&clock).await;
                asked.insert(clock.now());
            }
            asked
        };
        let (one, other) = tokio::join!(asking(), asking());
        let together = one.intersection(&other).count();
        assert!(together * 10 < one.len(), "{together} of {} times at the same moment", one.len());
    }
}
