//! What the suite needs of a backend's tests: a fresh service, independent clients, and ways to do harm to them.
//!
//! How a service is started, and how harm is done to it, is the fixture's; what must then be true is the cases'.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Backend, BoxFuture, ContenderId, Operation, QueueName, Result};

/// A service under test; each case gets a fresh one, without queues.
pub trait Fixture: Debug + Send + Sync + 'static {
    /// Opens a client that shares nothing with the others but the service.
    ///
    /// # Errors
    ///
    /// Whatever kept it from opening; the case fails.
    ///
    /// # Cancellation
    ///
    /// Leaves nothing open.
    ///
    /// # Ordering
    ///
    /// None.
    ///
    /// # On connection loss
    ///
    /// Fails.
    fn client(&self) -> BoxFuture<Result<Arc<dyn Client>>>;

    /// Returns the clock that the clients read.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Tells whether this kind of harm can be done here. A case that needs what cannot be done is skipped by name; one about
    /// what cannot happen is left out.
    fn harm(&self, kind: FaultKind) -> Harm;

    /// Returns how long the session of a client that is cut off can live on at most; `None` if it lives on without end.
    fn session_timeout(&self) -> Option<Duration>;

    /// Names all that the service still stores for any queue, by the service's own count and not by the backend's.
    ///
    /// It must be empty at the end of each case.
    ///
    /// # Errors
    ///
    /// Whatever kept it from looking; the case fails.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// Shows everything whose end was acknowledged to anybody before the call.
    ///
    /// # On connection loss
    ///
    /// Fails.
    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>>;
}

/// One client of the service under test, as independent of the others as another process would be.
pub trait Client: Debug + Send + Sync + 'static {
    /// Returns its side of the waist.
    fn backend(&self) -> Arc<dyn Backend>;

    /// Does harm to this client, or undoes it.
    ///
    /// # Errors
    ///
    /// Whatever kept it from being done; the case fails. Never asked for what [`Fixture::harm`] does not offer.
    ///
    /// # Cancellation
    ///
    /// It may be done all the same.
    ///
    /// # Ordering
    ///
    /// The harm is done when this returns; the client may notice later.
    ///
    /// # On connection loss
    ///
    /// None: it goes its own way.
    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>>;
}

/// Harm to a client or to its service, or the end of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The service ends the client's sessions.
    ExpireSession,
    /// The client is cut off: its requests fail or hang, and its session ends at the session timeout.
    Cut,
    /// The way that was cut opens again.
    Heal,
    /// The whole service stands still and answers nobody.
    Pause,
    /// The service goes on, with the requests that waited.
    Resume,
    /// The next request of this kind takes effect, but its reply is lost.
    LoseReply(Operation),
    /// An operator removes a contender by the service's own means.
    RemoveContender {
        /// From which queue.
        queue: QueueName,
        /// Which one.
        contender: ContenderId,
    },
    /// The service is stopped and started again with its data.
    Restart,
}

impl Fault {
    /// Returns the kind that a fixture must be able to do.
    pub const fn kind(&self) -> FaultKind {
        match self {
            Self::ExpireSession => FaultKind::ExpireSession,
            Self::Cut | Self::Heal => FaultKind::Cut,
            Self::Pause | Self::Resume => FaultKind::Pause,
            Self::LoseReply(_) => FaultKind::LoseReply,
            Self::RemoveContender { .. } => FaultKind::RemoveContender,
            Self::Restart => FaultKind::Restart,
        }
    }
}

/// Whether a kind of harm can be done to a service under test.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Harm {
    /// The fixture can do it.
    CanBeDone,
    /// It can happen to the service, but the fixture has no way to do it.
    CannotBeDone,
    /// By its nature it cannot happen to this service, so that there is nothing to prove.
    CannotHappen,
}

/// A kind of harm that a case needs.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum FaultKind {
    /// [`Fault::ExpireSession`].
    ExpireSession,
    /// [`Fault::Cut`] and [`Fault::Heal`].
    Cut,
    /// [`Fault::Pause`] and [`Fault::Resume`].
    Pause,
    /// [`Fault::LoseReply`].
    LoseReply,
    /// [`Fault::RemoveContender`]. The contender's own process hears of it when it looks.
    RemoveContender,
    /// [`Fault::RemoveContender`] is told at once to all who wait, behind it or in its place.
    TellOfRemoval,
    /// [`Fault::Restart`].
    Restart,
}

/// As it completes the sentence "the fixture cannot …".
impl fmt::Display for FaultKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ExpireSession => "expire a session",
            Self::Cut => "cut a client off",
            Self::Pause => "pause the service",
            Self::LoseReply => "lose a reply",
            Self::RemoveContender => "remove a contender",
            Self::TellOfRemoval => "tell waiters at once of a removal",
            Self::Restart => "restart the service",
        })
    }
}
