//! How often an onlooker looks: so that looks take a hundredth of one connection's time. A rule of times, without a
//! clock.
//!
//! A look may be slow once because a machine was busy. If the next pause were as much longer, what changes meanwhile
//! would be told seconds late; so each look is paid for in several pauses, which together are as long.

use std::time::Duration;

/// How many times longer than looks the pauses behind them are.
const LOOK_SHARE: u32 = 100;

/// In how many pauses a look is paid for: one that takes fifty milliseconds for once has the next ones wait less than
/// a second.
const PAUSES: u32 = 8;

/// The least pause, if the reader has not named one.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(500);

/// The greatest pause, at which looks may cost more than their share: an operator waits a minute at most.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long the last looks took. Before the first ones they count as nothing: these are paid for later.
#[derive(Debug, Default)]
pub(super) struct Pace {
    took: [Duration; PAUSES as usize],
    oldest: usize,
}

impl Pace {
    /// Returns how long it is from the end of a look that took so long to the next one.
    pub(super) fn pause_after(&mut self, took: Duration, pause_min: Option<Duration>) -> Duration {
        self.took[self.oldest] = took;
        self.oldest = (self.oldest + 1) % self.took.len();
        let together = self.took.iter().fold(Duration::ZERO, |sum, took| sum.saturating_add(*took));
        let pause = together.saturating_mul(LOOK_SHARE) / PAUSES;
        pause.min(LOOK_PAUSE_MAX).max(pause_min.unwrap_or(LOOK_PAUSE_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// The pause behind the last of several looks that took as long.
    fn steady(took: Duration, pause_min: Option<Duration>) -> Duration {
        let mut pace = Pace::default();
        let pauses = (0..PAUSES).map(|_| pace.pause_after(took, pause_min));
        pauses.last().unwrap()
    }

    #[test]
    fn looks_that_take_as_long_have_pauses_a_hundred_times_as_long_up_to_a_minute() {
        for (took, pause_min, pause) in [
            (1, None, 500),
            (30, None, 3_000),
            (10_000, None, 60_000),
            (1, Some(20), 100),
            (0, Some(20), 20),
            (30, Some(90_000), 90_000),
        ] {
            assert_eq!(steady(ms(took), pause_min.map(ms)), ms(pause), "{took} {pause_min:?}");
        }
        assert_eq!(steady(Duration::MAX, None), LOOK_PAUSE_MAX);
    }

    #[test]
    fn one_slow_look_makes_none_of_the_next_ones_seconds_late() {
        let mut pace = Pace::default();
        (0..20).for_each(|_| _ = pace.pause_after(ms(2), None));
        let pauses: Vec<_> = [66, 2, 2, 2, 2, 2, 2, 2, 2].map(|took| pace.pause_after(ms(took), None)).into();
        assert!(pauses[..8].iter().all(|pause| *pause == ms(1_000)), "{pauses:?}");
        assert_eq!(pauses[8], ms(500), "it is paid for");
    }

    #[test]
    fn looks_take_a_hundredth_of_the_time_whatever_they_take() {
        // Any numbers will do, and the same each time: a generator of Knuth's (MMIX).
        let mut state = 7_u64;
        let mut pace = Pace::default();
        let (mut looking, mut pausing) = (Duration::ZERO, Duration::ZERO);
        for round in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Most are fast, some are slow, and now and then all are slow for a while.
            let is_slow = round % 1_000 > 900 || (state >> 33).is_multiple_of(20);
            let took = Duration::from_micros((state >> 40) % if is_slow { 400_000 } else { 3_000 });
            looking += took;
            pausing += pace.pause_after(took, Some(Duration::ZERO));
            // What is not paid for yet is what the last looks took.
            let due: Duration = pace.took.iter().sum();
            assert!(looking.saturating_sub(due) * LOOK_SHARE <= pausing + ms(1), "{round}: {looking:?} of {pausing:?}");
        }
    }
}
