//! The time for which a caller waits.

use std::time::Duration;

use crate::clock::BootInstant;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
