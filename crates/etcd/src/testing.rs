//! Means for tests to do harm to one client of the service, and to judge a session by what was exchanged. Only with the
//! feature `testing`.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_core::Operation;
use lockkeeper_core::clock::BootInstant;

use crate::session::{Belief, Renewal, Witness};

/// Does harm to one client, and tells tests what they cannot see from outside. Its clones are the same.
#[derive(Clone, Default)]
pub struct Testing {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    to_lose: Mutex<Vec<Operation>>,
    lease: AtomicI64,
    removals: AtomicU64,
    losses: AtomicU64,
    ignores_conditions: AtomicBool,
}

impl Testing {
    /// Loses the next answer to a request of this kind after it took effect, and the connection with it.
    pub fn lose_reply(&self, operation: Operation) {
        self.to_lose().push(operation);
    }

    /// Has changes of contenders and values take effect whatever stands there by then: the fault that their conditions
    /// are for.
    pub fn ignore_conditions(&self) {
        self.shared.ignores_conditions.store(true, Ordering::SeqCst);
    }

    pub(crate) fn ignores_conditions(&self) -> bool {
        self.shared.ignores_conditions.load(Ordering::SeqCst)
    }

    /// Returns the lease of the session that was opened last; 0 if there was none.
    pub fn lease(&self) -> i64 {
        self.shared.lease.load(Ordering::SeqCst)
    }

    /// Counts the contenders of this client that were found to be gone from a session that stands.
    pub fn removals(&self) -> u64 {
        self.shared.removals.load(Ordering::SeqCst)
    }

    /// Counts the sessions of this client that it knows to be lost.
    pub fn losses(&self) -> u64 {
        self.shared.losses.load(Ordering::SeqCst)
    }

    pub(crate) fn note_loss(&self) {
        self.shared.losses.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn loses(&self, operation: Operation) -> bool {
        let mut to_lose = self.to_lose();
        let found = to_lose.iter().position(|lost| *lost == operation);
        found.map(|at| to_lose.remove(at)).is_some()
    }

    pub(crate) fn note_lease(&self, lease: i64) {
        self.shared.lease.store(lease, Ordering::SeqCst);
    }

    pub(crate) fn note_removal(&self) {
        self.shared.removals.fetch_add(1, Ordering::SeqCst);
    }

    fn to_lose(&self) -> MutexGuard<'_, Vec<Operation>> {
        self.shared.to_lose.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Testing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Testing")
    }
}

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
