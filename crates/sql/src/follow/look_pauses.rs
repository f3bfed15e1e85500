//! The rate of an onlooker's looks: they take a hundredth of one connection's time. A rule of times, without a clock.
//!
//! A look that is slow for once says more of a busy machine than of what looks cost, and a pause that is as much longer
//! would have what changes meanwhile told many seconds late. So the usual one of the last looks counts, and the last
//! one for a tenth.

use std::collections::VecDeque;
use std::time::Duration;

/// How many times longer than the usual look a pause is: looks may take a fourth longer than that at the mean, and take
/// no more than a hundredth of the time.
const USUAL_SHARE: u32 = 125;

/// How many times longer than the look before it a pause is at least: a database that is busy is asked for a tenth of
/// the time at most.
const LAST_SHARE: u32 = 10;

/// Of how many looks the usual one is the median: few enough that it follows when all become slow, and so many that a
/// busy moment is less than half of them.
const LOOKS: usize = 8;

/// The least pause, if the reader has not named one.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(500);

/// The greatest pause, at which looks may cost more than their share: an operator waits a minute at most.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long the last looks took.
#[derive(Debug, Default)]
pub(super) struct LookPauses {
    took: VecDeque<Duration>,
}

impl LookPauses {
    /// Returns how long it is from the end of a look that took so long to the next one.
    pub(super) fn pause_after(&mut self, took: Duration, pause_min: Option<Duration>) -> Duration {
        if self.took.len() == LOOKS {
            self.took.pop_front();
        }
        self.took.push_back(took);
        let pause = self.usual().saturating_mul(USUAL_SHARE).max(took.saturating_mul(LAST_SHARE));
        pause.min(LOOK_PAUSE_MAX).max(pause_min.unwrap_or(LOOK_PAUSE_MIN))
    }

    /// Returns the median of the last looks, the lower one of two. The first look of all says little: it is often the
    /// slowest.
    fn usual(&self) -> Duration {
        let mut took = Vec::from(self.took.clone());
        took.sort_unstable();
        if took.len() > 1 { took[(took.len() - 1) / 2] } else { Duration::ZERO }
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
        let mut look_pauses = LookPauses::default();
        let pauses = (0..LOOKS).map(|_| look_pauses.pause_after(took, pause_min));
        pauses.last().unwrap()
    }

    #[test]
    fn looks_that_take_as_long_have_longer_pauses_the_longer_they_take_up_to_a_minute() {
        for (took, pause_min, pause) in [
            (1, None, 500),
            (30, None, 3_750),
            (10_000, None, 60_000),
            (1, Some(20), 125),
            (0, Some(20), 20),
            (30, Some(90_000), 90_000),
        ] {
            assert_eq!(steady(ms(took), pause_min.map(ms)), ms(pause), "{took} {pause_min:?}");
        }
        assert_eq!(steady(Duration::MAX, None), LOOK_PAUSE_MAX);
    }

    #[test]
    fn looks_that_are_slow_for_once_make_none_of_the_next_ones_seconds_late() {
        let mut look_pauses = LookPauses::default();
        let pauses: Vec<_> = [80, 2, 2, 2].map(|took| look_pauses.pause_after(ms(took), None)).into();
        assert_eq!(pauses, [ms(800), ms(500), ms(500), ms(500)], "the first one");
        (0..LOOKS).for_each(|_| _ = look_pauses.pause_after(ms(2), None));
        let pauses: Vec<_> = [66, 100, 40, 2].map(|took| look_pauses.pause_after(ms(took), None)).into();
        assert_eq!(pauses, [ms(660), ms(1_000), ms(500), ms(500)], "later ones");
    }

    #[test]
    fn one_look_that_is_fast_for_once_makes_the_next_ones_take_no_more_than_their_share() {
        let mut look_pauses = LookPauses::default();
        let pauses = [60, 30, 60, 60, 60].map(|took| look_pauses.pause_after(ms(took), None));
        assert_eq!(pauses[2..], [ms(7_500); 3]);
    }

    #[test]
    fn looks_take_a_hundredth_of_the_time_and_a_tenth_however_slow_some_of_them_are() {
        // Any numbers will do, and the same each time: a generator of Knuth's (MMIX).
        let mut state = 7_u64;
        for (usual_us, slow_us, part) in [(60_000, 60_000, 100), (3_000, 400_000, 10)] {
            let mut look_pauses = LookPauses::default();
            let (mut looking, mut pausing) = (Duration::ZERO, Duration::ZERO);
            for round in 0..10_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Most are fast, some are slow, and now and then all are slow for a while.
                let is_slow = round % 1_000 > 900 || (state >> 33).is_multiple_of(20);
                let least_us = if is_slow { slow_us } else { usual_us };
                let took = Duration::from_micros(least_us + (state >> 40) % (least_us / 4));
                let pause = look_pauses.pause_after(took, Some(Duration::ZERO));
                if round > 0 {
                    (looking, pausing) = (looking + took, pausing + pause);
                }
            }
            assert!(looking * part <= pausing, "{usual_us}: {looking:?} of {pausing:?}");
        }
    }
}
