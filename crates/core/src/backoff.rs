//! Pauses between attempts that fail one after the other: each twice as long as the one before, up to a limit.

use std::time::Duration;

use crate::clock::Clock;

/// The pauses of one row of attempts.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    /// Between attempts to reach a service that a session or a look needs: a server that comes back is found soon.
    pub const CONNECTING: Self = Self::new(Duration::from_millis(20), Duration::from_millis(500));

    /// Between attempts of a contender to leave its queue that the service refuses: only an operator can help.
    pub const LEAVING: Self = Self::new(Duration::from_millis(500), Duration::from_secs(10));

    /// Pauses from `first` up to `max`.
    #[must_use]
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { next: first, max }
    }

    /// Returns the pause before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (self.next * 2).min(self.max);
        pause
    }

    /// Waits for as long as the next pause.
    pub async fn rest(&mut self, clock: &dyn Clock) {
        clock.sleep_until(clock.now().saturating_add(self.pause())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_limit() {
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(70));
        let pauses = [(); 4].map(|()| backoff.pause().as_millis());
        assert_eq!(pauses, [20, 40, 70, 70]);
    }
}
