//! Means for tests to do harm to one client of the service. Only with the feature `testing`.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Does harm to one client, and tells tests what they cannot see from outside. Its clones are the same.
#[derive(Clone, Default)]
pub struct Testing {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    to_lose: Mutex<Vec<String>>,
    session: Mutex<String>,
    removals: AtomicU64,
    lost: Mutex<Vec<String>>,
    beats: tokio::sync::Notify,
    ignores_epochs: AtomicBool,
    doubts_early: AtomicBool,
    counts_from_replies: AtomicBool,
}

impl Testing {
    /// Loses the next answer of this function, such as `join`, after it took effect, and the connection with it.
    pub fn lose_reply(&self, function: &str) {
        locked(&self.shared.to_lose).push(function.to_owned());
    }

    /// Plants a bug: from now on a new connection does not end what was sent over an old one, so that a join over that
    /// takes effect, however late it comes.
    pub fn ignore_epochs(&self) {
        self.shared.ignores_epochs.store(true, Ordering::SeqCst);
    }

    pub(crate) fn ignores_epochs(&self) -> bool {
        self.shared.ignores_epochs.load(Ordering::SeqCst)
    }

    /// Plants a bug: from now on this client removes sessions that stood still for half their timeout.
    pub fn doubt_early(&self) {
        self.shared.doubts_early.store(true, Ordering::SeqCst);
    }

    pub(crate) fn doubts_early(&self) -> bool {
        self.shared.doubts_early.load(Ordering::SeqCst)
    }

    /// Plants a bug: from now on this client believes a beat from its answer on, and not from its sending.
    pub fn count_from_replies(&self) {
        self.shared.counts_from_replies.store(true, Ordering::SeqCst);
    }

    pub(crate) fn counts_from_replies(&self) -> bool {
        self.shared.counts_from_replies.load(Ordering::SeqCst)
    }

    /// Has every session of this client beat now, so that it learns at once what the service knows of it.
    pub fn beat(&self) {
        self.shared.beats.notify_waiters();
    }

    /// Waits until a beat is asked for.
    pub(crate) async fn asked_to_beat(&self) {
        self.shared.beats.notified().await;
    }

    /// Returns the number of the session that was opened last, in hexadecimal digits; empty if there was none.
    pub fn session(&self) -> String {
        locked(&self.shared.session).clone()
    }

    /// Counts the contenders of this client that were found to be gone from a session that stands.
    pub fn removals(&self) -> u64 {
        self.shared.removals.load(Ordering::SeqCst)
    }

    /// Whether this client knows that it has lost the session of this [number](Self::session).
    pub fn knows_lost(&self, session: &str) -> bool {
        locked(&self.shared.lost).iter().any(|lost| lost == session)
    }

    pub(crate) fn note_loss(&self, session: String) {
        locked(&self.shared.lost).push(session);
    }

    pub(crate) fn loses(&self, function: &str) -> bool {
        let mut to_lose = locked(&self.shared.to_lose);
        let found = to_lose.iter().position(|lost| lost == function);
        found.map(|at| to_lose.remove(at)).is_some()
    }

    pub(crate) fn note_session(&self, session: String) {
        *locked(&self.shared.session) = session;
    }

    pub(crate) fn note_removal(&self) {
        self.shared.removals.fetch_add(1, Ordering::SeqCst);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Testing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Testing")
    }
}
