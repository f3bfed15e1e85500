//! When failed tests are judged again: only if others took the processors of a shared machine while they ran.
//!
//! Many tests hold a time against a bound. On a virtual machine whose host gives its processors to others for seconds, a
//! late answer says nothing about the code. The kernel counts that time (`steal` in `/proc/stat`), so this is measured
//! and not guessed. A test that fails each time, or on a machine of its own, fails the run.

use std::fs;

/// From which share of stolen processor time on failed tests are judged again: below it, what was late was late by itself.
const STOLEN_SHARE_MIN: f64 = 0.05;

/// How many failed tests are judged again at most: that many are no accident.
pub(crate) const TESTS_MAX: usize = 12;

/// How often a failed test is judged again: a host that is busy now may be busy again a minute later.
pub(crate) const TIMES_MAX: usize = 2;

/// The time of all processors so far, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ProcessorTime {
    all: u64,
    stolen: u64,
}

impl ProcessorTime {
    /// Reads it; `None` where the kernel does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// `cpu user nice system idle iowait irq softirq steal …`; what follows is part of these.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks = line.split_whitespace().take(8).map(|ticks| ticks.parse().ok()).collect::<Option<Vec<u64>>>()?;
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// Returns the share of the time since `earlier` that was stolen, from 0 to 1.
    fn stolen_share_since(self, earlier: Self) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        self.stolen.saturating_sub(earlier.stolen) as f64 / all as f64
    }
}

/// Returns the share of stolen time between the two, if it was so much that failed tests are judged again.
pub(crate) fn stolen_between(before: Option<ProcessorTime>, after: Option<ProcessorTime>) -> Option<f64> {
    Some(after?.stolen_share_since(before?)).filter(|share| *share >= STOLEN_SHARE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(all: u64, stolen: u64) -> Option<ProcessorTime> {
        ProcessorTime::parse(&format!("cpu  {} 0 0 0 0 0 0 {stolen} 7 7\ncpu0 1 2 3\n", all - stolen))
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time_between_two_looks() {
        assert_eq!(at(1_000, 10), Some(ProcessorTime { all: 1_000, stolen: 10 }));
        assert_eq!(stolen_between(at(1_000, 10), at(2_000, 110)), Some(0.1));
        assert_eq!(stolen_between(at(1_000, 10), at(2_000, 59)), None, "less than a twentieth");
        assert_eq!(stolen_between(at(1_000, 10), at(1_000, 10)), None);
    }

    #[test]
    fn where_the_kernel_does_not_tell_nothing_is_judged_again() {
        assert_eq!(ProcessorTime::parse(""), None);
        assert_eq!(ProcessorTime::parse("cpu  1 2 3"), None);
        assert_eq!(stolen_between(None, at(2, 1)), None);
    }
}
