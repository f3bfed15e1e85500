//! The distribution of times.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest time that is told apart, in nanoseconds: a minute.
const TIME_MAX_NS: u64 = 60_000_000_000;

/// Digits that are kept of each time.
const DIGITS: u8 = 3;

/// Times, by how often each came.
#[derive(Clone, Debug)]
pub(crate) struct Latency(Histogram<u64>);

impl Latency {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, TIME_MAX_NS, DIGITS).expect("bounds that fit"))
    }

    /// Notes a time; one beyond the bounds counts as the bound.
    pub(crate) fn note(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    /// Adds the times of another one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("the same bounds");
    }

    /// The time that this part of the calls took at most, in seconds.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        self.0.value_at_quantile(part) as f64 * 1e-9
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_seconds_and_a_time_out_of_bounds_is_kept_as_the_bound() {
        let mut latency = Latency::new();
        for micros in 1..=100 {
            latency.note(Duration::from_micros(micros));
        }
        assert!((latency.median() - 50e-6).abs() < 1e-6, "{}", latency.median());
        latency.note(Duration::from_secs(1_000));
        assert!(latency.quantile(1.0) >= 59.0);
    }
}
