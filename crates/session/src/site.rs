//! The service that a backend and its sessions use, and means for tests to do harm to one client of it and to see what
//! it knows. Without the feature `testing` these do nothing.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use lockkeeper_core::clock::Clock;
use tokio::sync::Notify;

use parking_lot::Mutex;

/// A service as its URL says, and where in it the queues lie. Its clones are the same.
#[derive(Clone, Debug)]
pub struct Site<C, L> {
    /// What the URL says.
    pub config: Arc<C>,
    /// Where the queues lie.
    pub layout: L,
    /// The clock of all deadlines.
    pub clock: Arc<dyn Clock>,
    /// What tests do to the client.
    pub testing: ClientTesting,
}

impl<C, L> Site<C, L> {
    /// Takes a service that no test does harm to.
    pub fn new(config: C, layout: L, clock: Arc<dyn Clock>) -> Self {
        Self { config: Arc::new(config), layout, clock, testing: ClientTesting::default() }
    }
}

/// A bug that tests plant.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Bug {
    /// A new connection does not end what was sent over an old one: a join over that takes effect, however late it
    /// comes.
    IgnoresEpochs,
    /// Changes of contenders and values take effect whatever stands there by then: the fault that their conditions are
    /// for.
    IgnoresConditions,
    /// This client removes sessions that stood still for half their timeout.
    DoubtsEarly,
    /// This client believes a proof from its answer on, and not from its sending.
    CountsFromReplies,
}

/// Does harm to one client, and tells tests what they cannot see from outside. Its clones are the same.
#[derive(Clone)]
pub struct ClientTesting(Option<Arc<Harm>>);

#[derive(Default)]
struct Harm {
    to_lose: Mutex<Vec<String>>,
    bugs: AtomicU32,
    session: Mutex<String>,
    lost: Mutex<Vec<String>>,
    removals: AtomicU64,
    urges: Mutex<Vec<Weak<Notify>>>,
}

impl ClientTesting {
    /// Loses the next answer to a request of this name after it took effect, and the connection with it.
    pub fn lose_reply(&self, request: impl fmt::Debug) {
        self.harm(|harm| harm.to_lose.lock().push(format!("{request:?}")));
    }

    pub(crate) fn loses(&self, request: impl fmt::Debug) -> bool {
        self.harm(|harm| {
            let (mut to_lose, request) = (harm.to_lose.lock(), format!("{request:?}"));
            let found = to_lose.iter().position(|lost| *lost == request);
            found.map(|at| to_lose.remove(at)).is_some()
        })
    }

    /// Plants a bug, from now on.
    pub fn plant(&self, bug: Bug) {
        self.harm(|harm| _ = harm.bugs.fetch_or(1 << bug as u32, Ordering::SeqCst));
    }

    /// Whether a bug is planted.
    #[must_use]
    pub fn has(&self, bug: Bug) -> bool {
        self.harm(|harm| harm.bugs.load(Ordering::SeqCst) & (1 << bug as u32) != 0)
    }

    /// Has every session of this client prove itself now, so that it learns at once what the service knows of it.
    pub fn urge(&self) {
        self.harm(|harm| harm.urges.lock().iter().filter_map(Weak::upgrade).for_each(|urge| urge.notify_one()));
    }

    /// Returns the session that was opened last, as the service names it; empty if there was none.
    #[must_use]
    pub fn session(&self) -> String {
        self.harm(|harm| harm.session.lock().clone())
    }

    /// Notes a session that was opened, and what urges it.
    pub(crate) fn note_session(&self, session: &str, urge: &Arc<Notify>) {
        self.harm(|harm| {
            session.clone_into(&mut harm.session.lock());
            harm.urges.lock().push(Arc::downgrade(urge));
        });
    }

    /// Counts the sessions of this client that it knows to be lost.
    #[must_use]
    pub fn losses(&self) -> usize {
        self.harm(|harm| harm.lost.lock().len())
    }

    /// Whether this client knows that it has lost this [session](Self::session).
    #[must_use]
    pub fn knows_lost(&self, session: &str) -> bool {
        self.harm(|harm| harm.lost.lock().iter().any(|lost| lost == session))
    }

    pub(crate) fn note_loss(&self, session: &str) {
        self.harm(|harm| harm.lost.lock().push(session.to_owned()));
    }

    /// Counts the contenders of this client that were found to be gone from a session that stands.
    #[must_use]
    pub fn removals(&self) -> u64 {
        self.harm(|harm| harm.removals.load(Ordering::SeqCst))
    }

    /// Notes such a contender.
    pub(crate) fn note_removal(&self) {
        self.harm(|harm| _ = harm.removals.fetch_add(1, Ordering::SeqCst));
    }

    fn harm<T: Default>(&self, act: impl FnOnce(&Harm) -> T) -> T {
        self.0.as_deref().map(act).unwrap_or_default()
    }
}

impl Default for ClientTesting {
    fn default() -> Self {
        Self(cfg!(feature = "testing").then(Arc::default))
    }
}

impl fmt::Debug for ClientTesting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ClientTesting")
    }
}
