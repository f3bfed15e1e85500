//! The time type of this crate: a point on the caller's clock, which the caller passes with every input.
//!
//! The crate reads no clock. The caller should use one that goes on while the machine sleeps (CLOCK_BOOTTIME), since a
//! session ends at the server whether or not this machine was awake.

use std::fmt;
use std::time::Duration;

/// Marks a point on a clock that never goes back, in nanoseconds since an arbitrary origin.
///
/// Arithmetic saturates at both ends: 2^64 ns are 584 years, so saturation means "never" and not an overflow.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin of the clock.
    pub const ZERO: Self = Self(0);

    /// Makes a point from nanoseconds since the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Makes a point from milliseconds since the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The point `span` later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }

    /// The point `span` earlier, or the origin if that lies before it.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }

    /// The time from `earlier` to this point; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        let end = Timestamp::from_nanos(u64::MAX);
        assert_eq!(end.after(Duration::from_secs(1)), end);
        assert_eq!(Timestamp::from_millis(1).before(Duration::from_secs(1)), Timestamp::ZERO);
        assert_eq!(Timestamp::ZERO.since(end), Duration::ZERO);
        assert_eq!(Timestamp::from_millis(5).since(Timestamp::from_millis(2)), Duration::from_millis(3));
        assert_eq!(Timestamp::ZERO.after(Duration::MAX), end);
    }
}
