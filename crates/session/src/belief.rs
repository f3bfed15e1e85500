//! Until when a session may be believed: a rule of events and times, without a clock or a connection.

use std::time::Duration;

use lockkeeper_core::clock::BootInstant;

/// Until when one session may be believed: for a fixed time from the sending of the newest request that proved it.
#[derive(Clone, Copy, Debug)]
pub struct Belief {
    span: Duration,
    /// When the newest request was sent that proved the session, or earlier.
    anchor: BootInstant,
}

impl Belief {
    /// Begins with the opening of the session, which was sent at this moment. Each proof is worth `span`.
    #[must_use]
    pub const fn new(span: Duration, opened_at: BootInstant) -> Self {
        Self { span, anchor: opened_at }
    }

    /// Notes that a request was answered that proves the session and was sent at this moment.
    pub fn proven(&mut self, sent_at: BootInstant) {
        self.anchor = self.anchor.max(sent_at);
    }

    /// Until when the session may be believed.
    #[must_use]
    pub fn safe_until(&self) -> BootInstant {
        self.anchor.saturating_add(self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_believed_from_the_sending_of_a_proof() {
        let at = |seconds: u64| BootInstant::from_nanos(seconds * 1_000_000_000);
        let mut belief = Belief::new(Duration::from_secs(20), at(1));
        assert_eq!(belief.safe_until(), at(21));
        belief.proven(at(4));
        assert_eq!(belief.safe_until(), at(24));
        belief.proven(at(3));
        assert_eq!(belief.safe_until(), at(24), "an older one takes nothing back");
    }
}
