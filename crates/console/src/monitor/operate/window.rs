//! So many in a time: what goes beyond that has to wait.

use std::collections::VecDeque;
use std::time::Duration;

use lockkeeper::clock::BootInstant;

/// When the last ones were, as far as they count.
#[derive(Debug)]
pub(super) struct Window {
    max: usize,
    over: Duration,
    times: VecDeque<BootInstant>,
}

impl Window {
    /// Lets `max` of them be in any time of `over`.
    pub(super) const fn new(max: usize, over: Duration) -> Self {
        Self { max, over, times: VecDeque::new() }
    }

    /// Notes one; those that are too old to count, and those beyond the limit, are forgotten.
    pub(super) fn note(&mut self, now: BootInstant) {
        if self.times.len() >= self.max {
            self.times.pop_front();
        }
        self.times.push_back(now);
    }

    /// Returns after which time the next one may be; `None` if it may be now.
    pub(super) fn wait(&self, now: BootInstant) -> Option<Duration> {
        let oldest = self.times.front().filter(|_| self.times.len() >= self.max)?;
        let left = self.over.saturating_sub(now.saturating_duration_since(*oldest));
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_so_many_in_a_minute_the_next_waits_until_the_first_is_a_minute_old() {
        let minute = Duration::from_secs(60);
        let at = |seconds: u64| BootInstant::from_nanos(0).saturating_add(Duration::from_secs(1_000 + seconds));
        let mut window = Window::new(5, minute);
        for second in 0..5 {
            assert_eq!(window.wait(at(second)), None);
            window.note(at(second));
        }
        assert_eq!(window.wait(at(4)), Some(Duration::from_secs(56)));
        assert_eq!(window.wait(at(59)), Some(Duration::from_secs(1)));
        assert_eq!(window.wait(at(60)), None);
        window.note(at(60));
        assert_eq!(window.wait(at(60)), Some(Duration::from_secs(1)), "the second one of before counts still");
        assert_eq!(window.wait(at(61)), None);
    }
}
