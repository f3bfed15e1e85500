//! The size of a measurement: in full, or as little as shows that each one works.

use std::time::Duration;

/// Rounds of a full run: odd, so that one of them is the median.
const ROUNDS: usize = 5;

/// A smoke test does this part of the calls and takes this part of the time, …
const QUICK_PART: u32 = 20;

/// … and no fewer calls than this.
const QUICK_CALLS_MIN: u32 = 3;

/// How much is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Effort {
    Full,
    /// One short round of each; its figures say nothing.
    Quick,
}

impl Effort {
    /// How often all that is compared takes its turn; odd.
    pub(crate) const fn rounds(self) -> usize {
        match self {
            Self::Full => ROUNDS,
            Self::Quick => 1,
        }
    }

    /// How many turns stand for this number of a full run.
    pub(crate) const fn turns(self, full: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Quick => 1,
        }
    }

    /// How many calls stand for this number of a full run.
    pub(crate) const fn calls(self, full: u32) -> u32 {
        match self {
            Self::Full => full,
            Self::Quick if full / QUICK_PART < QUICK_CALLS_MIN => QUICK_CALLS_MIN,
            Self::Quick => full / QUICK_PART,
        }
    }

    /// How long is measured where a full run takes this time.
    pub(crate) fn time(self, full: Duration) -> Duration {
        match self {
            Self::Full => full,
            Self::Quick => full / QUICK_PART,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_odd_and_a_quick_run_does_less_of_everything_but_not_nothing() {
        for effort in [Effort::Full, Effort::Quick] {
            assert_eq!(effort.rounds() % 2, 1);
        }
        assert_eq!((Effort::Full.calls(1_000), Effort::Quick.calls(1_000), Effort::Quick.calls(9)), (1_000, 50, 3));
        assert_eq!(Effort::Quick.time(Duration::from_secs(1)), Duration::from_millis(50));
    }
}
