//! Until when a session may be believed: a rule of events and times, without a clock or a connection.

use std::time::Duration;

use lockkeeper_core::clock::BootInstant;

/// Until when one session may be believed.
#[derive(Clone, Copy, Debug)]
pub struct Belief {
    safe_until: BootInstant,
}

impl Belief {
    /// Begins with what the opening of the session is worth.
    #[must_use]
    pub const fn until(safe_until: BootInstant) -> Self {
        Self { safe_until }
    }

    /// Notes that a request was answered that proves the session for so long, from the moment when it was sent on.
    pub fn prove(&mut self, sent_at: BootInstant, span: Duration) {
        self.safe_until = self.safe_until.max(sent_at.saturating_add(span));
    }

    /// Until when the session may be believed.
    #[must_use]
    pub const fn safe_until(&self) -> BootInstant {
        self.safe_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_believed_from_the_sending_of_a_proof() {
        let at = |seconds: u64| BootInstant::from_nanos(seconds * 1_000_000_000);
        let span = Duration::from_secs(20);
        let mut belief = Belief::until(at(21));
        belief.prove(at(4), span);
        assert_eq!(belief.safe_until(), at(24));
        belief.prove(at(3), span);
        assert_eq!(belief.safe_until(), at(24), "an older one takes nothing back");
    }
}
