//! A means for tests to judge a session by what was exchanged. Only with the feature `testing`.

use std::time::Duration;

use lockkeeper_core::clock::BootInstant;

use crate::session::{Belief, Renewal, Witness};

/// An account of what one session has exchanged with one member, and until when it is believed by two rules: ours, and
/// a simple one that takes each answer to a keepalive for a proof.
#[derive(Debug)]
pub struct Account {
    belief: Belief,
    renewed_until: BootInstant,
}

/// A linearizable request that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Asked(Witness);

/// The number of the one connection.
const CONNECTION: u64 = 1;

impl Account {
    /// Begins with a lease that was granted: when that was asked for, the term of raft in the answer, and its time.
    pub fn granted(sent_at: BootInstant, term: u64, timeout: Duration) -> Self {
        let belief = Belief::new(Renewal { sent_at, connection: CONNECTION, term }, timeout);
        Self { belief, renewed_until: sent_at.saturating_add(timeout) }
    }

    /// Notes an answered keepalive.
    pub fn renewed(&mut self, sent_at: BootInstant, term: u64, timeout: Duration) {
        self.belief.renewed(Renewal { sent_at, connection: CONNECTION, term }, timeout);
        self.renewed_until = self.renewed_until.max(sent_at.saturating_add(timeout));
    }

    /// Notes that a linearizable request is about to be sent.
    pub fn asks(&self) -> Asked {
        Asked(self.belief.witness(CONNECTION))
    }

    /// Notes that such a request was answered, in this term.
    pub fn answered(&mut self, asked: Asked, term: u64) {
        self.belief.prove(asked.0, term);
    }

    /// Returns until when the session is believed by our rule; `None` before the first proof.
    pub fn proven_until(&self) -> Option<BootInstant> {
        self.belief.safe_until()
    }

    /// Returns until when it is believed by the simple rule: a timeout from the sending of a keepalive that was
    /// answered.
    pub const fn renewed_until(&self) -> BootInstant {
        self.renewed_until
    }
}
