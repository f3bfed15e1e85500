//! The suite's needs from a backend's tests: a fresh service, independent clients, and ways to do harm to them.
//!
//! The fixture knows how a service is started and how harm is done to it. The cases know what must then be true.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{
    Backend, BoxFuture, Capabilities, ContenderId, Fencing, Operation, QueueName, Removal, Result, StoppedHolder,
};
use lockkeeper_recipes::Handoff;

/// A service under test; each case gets a fresh one, without queues.
pub trait Fixture: Debug + Send + Sync + 'static {
    /// Hears, before it opens a client of the case, how long its sessions should live that are cut off. A service
    /// without session timeouts need not listen.
    fn prepare(&self, _sessions: Sessions) {}

    /// Opens a client that shares only the service with the others.
    ///
    /// # Errors
    ///
    /// The reason why it did not open; the case fails.
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

    /// Returns the clock that the clients read: the system's, if the fixture gives them no other.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    /// Returns how the parties' mutexes and writing sides go from task to task: `Strict`, unless the suite is run
    /// [under others](crate::run_under) too.
    fn handoff(&self) -> Handoff {
        Handoff::Strict
    }

    /// Tells whether this kind of harm can be done here. If not, a case that needs it is left out if by the service's
    /// capabilities it [cannot happen](FaultKind::can_happen), and else skipped by name.
    fn can_inflict(&self, kind: FaultKind) -> bool;

    /// Returns how long the session of a client that is cut off can live at most; `None` if it does not end.
    fn session_timeout(&self) -> Option<Duration> {
        None
    }

    /// Names all that the service still stores for any queue, as the service itself counts it, not the backend.
    ///
    /// It must be empty at the end of each case. The value of a semaphore's permits is not named: a backend need not
    /// remove it.
    ///
    /// # Errors
    ///
    /// The reason why it could not look; the case fails.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// Shows nothing whose end was acknowledged to any client before the call.
    ///
    /// # On connection loss
    ///
    /// Fails.
    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>>;
}

/// How long the sessions of a case's clients should live that are cut off, or belong to a machine that is busy with
/// other work.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a session ends while a case waits for it, or does not")]
pub enum Sessions {
    /// The case waits until one ends by itself, or warns of it: a few seconds, so that it does not wait for long.
    #[default]
    Brief,
    /// None has to end by itself: so long that none does because the machine is slow, and no request fails for that.
    Lasting,
}

/// One client of the service under test, as independent of the others as another process would be.
pub trait Client: Debug + Send + Sync + 'static {
    /// Returns its side of the waist.
    fn backend(&self) -> Arc<dyn Backend>;

    /// Does harm to this client, or undoes it.
    ///
    /// # Errors
    ///
    /// The reason why it could not be done; the case fails. It is never called for what [`Fixture::can_inflict`] does
    /// not offer.
    ///
    /// # Cancellation
    ///
    /// The harm may still be done.
    ///
    /// # Ordering
    ///
    /// The harm is done when this returns; the client may notice later.
    ///
    /// # On connection loss
    ///
    /// No effect: it does not use the client's connection.
    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>>;
}

/// Harm to a client or to its service, or its end.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a fixture inflicts or refuses every one")]
pub enum Fault {
    /// The service ends the client's sessions.
    ExpireSession,
    /// The client is cut off: its requests fail or hang, and its session ends at the session timeout.
    Cut,
    /// The connection that was cut works again.
    Heal,
    /// The whole service stands still and answers no client.
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
        /// Whether its own runtime stands still, and can be told of nothing before it goes on.
        stands_still: bool,
    },
    /// The service is stopped and started again with its data.
    Restart,
    /// The service loses all its data, while no client uses it.
    Wipe,
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
            Self::Wipe => FaultKind::Wipe,
        }
    }
}

/// A kind of harm that a case needs.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[expect(clippy::exhaustive_enums, reason = "a fixture says of every one whether it can be done")]
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
    /// [`Fault::RemoveContender`] is told at once to all waiters: those behind it, and the removed one itself. It is
    /// offered beside [`FaultKind::RemoveContender`] where the removal is [`Removal::Told`].
    TellOfRemoval,
    /// [`Fault::Restart`].
    Restart,
    /// [`Fault::Wipe`].
    Wipe,
}

impl FaultKind {
    /// Tells whether it can happen to a service with these capabilities.
    ///
    /// Where a stopped holder keeps its lock, a session is nothing but its process: there is no connection and no
    /// server that could fail it.
    pub fn can_happen(self, capabilities: &Capabilities) -> bool {
        match self {
            Self::RemoveContender => true,
            Self::TellOfRemoval => capabilities.removal == Removal::Told,
            Self::Wipe => capabilities.fencing == Fencing::Clock,
            Self::ExpireSession | Self::Cut | Self::Pause | Self::LoseReply | Self::Restart => {
                capabilities.stopped_holder != StoppedHolder::Keeps
            }
        }
    }
}

/// Completes the sentence "the fixture cannot …".
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
            Self::Wipe => "wipe the service's data",
        })
    }
}
