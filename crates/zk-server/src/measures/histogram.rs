//! Durations, counted in buckets. One thread writes and others read, at the cost of three uncontended additions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in nanoseconds: from an answer out of memory to a disk that hangs.
pub(super) const BOUNDS_NS: [u64; 13] = [
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
];

/// How often which durations were seen. What is read while others write is of slightly different times.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// One for each bound, and one for what is longer.
    buckets: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    pub(crate) fn record(&self, duration: Duration) {
        let nanoseconds = nanoseconds(duration);
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < nanoseconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// How many durations each bucket has.
    pub(super) fn counts(&self) -> [u64; BOUNDS_NS.len() + 1] {
        std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed))
    }

    /// How many durations were recorded.
    pub(super) fn count(&self) -> u64 {
        self.counts().iter().sum()
    }

    pub(super) fn sum_ns(&self) -> u64 {
        self.sum_ns.load(Ordering::Relaxed)
    }
}

/// A duration as it is counted; one beyond five centuries is cut to that.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
