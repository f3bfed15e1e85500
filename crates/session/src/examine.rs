//! The part of an examination that all services share: whether the clocks agree, and how long requests take.

use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Finding, Severity};

use crate::{Failure, holding_interval};

/// How far a server's clock may be from ours until it is told: clocks that are set by one time server differ by
/// milliseconds.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// How many round trips of the median must fit between two proofs: half of the time is left for a bad moment, and a
/// proof and what comes with it take two.
const ROUND_TRIPS_MIN: u32 = 4;

/// How many round trips are measured at most.
const ROUND_TRIPS_MAX: usize = 20;

/// What clocks that are set by one time server are for where tokens come of the server's.
pub const FOR_TOKENS: &str = ": after a loss of the service's data, tokens grow only if the clock goes on";

/// What a server's clock showed, and when by ours. All are times since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// What it showed.
    pub server: Duration,
    /// When it was asked.
    pub before: Duration,
    /// When it had answered.
    pub after: Duration,
}

impl Clocks {
    /// Judges the clock of this server by ours; `why` says what comes of a difference.
    #[must_use]
    pub fn judge(self, server: &str, why: &str) -> Option<Finding> {
        let (ahead, behind) = (self.server.saturating_sub(self.after), self.before.saturating_sub(self.server));
        let (by, word) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
        (by > CLOCK_TOLERANCE).then(|| {
            let what = format!("{server}'s clock is {:.1} s {word} this machine's", by.as_secs_f64());
            Finding::new(Severity::Warning, what, format!("set the clocks of all machines by one time server{why}"))
        })
    }
}

/// Measures requests, for about so long, and returns what half of them took at most.
///
/// # Errors
///
/// Why one failed.
pub async fn median_round_trip<A: Future<Output = Result<(), Failure>>>(
    clock: &dyn Clock,
    within: Duration,
    mut ask: impl FnMut() -> A,
) -> Result<Duration, Failure> {
    let begun = clock.now();
    let mut took = Vec::with_capacity(ROUND_TRIPS_MAX);
    loop {
        let start = clock.now();
        ask().await?;
        let end = clock.now();
        took.push(end.saturating_duration_since(start));
        if took.len() == ROUND_TRIPS_MAX || end.saturating_duration_since(begun) >= within {
            break;
        }
    }
    took.sort_unstable();
    Ok(took[took.len() / 2])
}

/// Judges a session timeout by how long a request takes. `proves` says what comes once in the time between two proofs.
#[must_use]
pub fn judge_round_trip(timeout: Duration, median: Duration, proves: &str) -> Option<Finding> {
    let interval = holding_interval(timeout);
    (median * ROUND_TRIPS_MIN > interval).then(|| {
        let what = format!("half of the requests take longer than {median:?}, and {proves} every {interval:?}");
        Finding::new(Severity::Warning, what, "set a longer session_timeout, or holders lapse while nothing is wrong")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_found_that_differs_by_more_than_a_second_and_a_slow_answer_is_no_difference() {
        let [before, after] = [100_000, 100_400].map(Duration::from_millis);
        for (server_ms, word) in [
            (99_000, None),
            (98_999, Some("1.0 s behind")),
            (101_400, None),
            (101_401, Some("1.0 s ahead of")),
            (160_400, Some("60.0 s ahead of")),
            (100_200, None),
        ] {
            let found = Clocks { server: Duration::from_millis(server_ms), before, after }.judge("the server", "");
            let told = found.map(|found| found.what);
            assert_eq!(told.is_some(), word.is_some(), "{server_ms}: {told:?}");
            assert!(word.is_none_or(|word| told.is_some_and(|told| told.contains(word))), "{server_ms}");
        }
    }

    #[test]
    fn a_timeout_is_found_that_is_short_for_the_time_of_a_request() {
        let judged = |median_ms| judge_round_trip(Duration::from_secs(6), Duration::from_millis(median_ms), "it beats");
        assert_eq!(judged(250), None);
        let found = judged(251).expect("it is short");
        assert!(found.severity == Severity::Warning && found.what.contains("251ms, and it beats every 1s"), "{found}");
    }
}
