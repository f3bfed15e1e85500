//! The operator half of a backend: it shows and follows all locks, examines the service, removes remnants, and sets the
//! service up. Nothing here takes part in a lock: `Backend` and its sessions do that.

use std::time::Duration;

use crate::contender::ContenderInfo;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::finding::Remnant;
use crate::finding::{Finding, Scrutiny};
use crate::follow::{Follower, Scope};
use crate::future::BoxFuture;
use crate::name::QueueName;

/// What operators do with a coordination service. A service must show its locks; the rest has defaults, for services
/// that need nothing.
///
/// # All methods
///
/// - Errors: transient if the service cannot be reached now, permanent if it refuses us. Nothing is retried here: after
///   a connection loss a call fails, and its caller retries under its own deadline.
/// - Cancellation: dropping the future of a look changes nothing.
/// - Order: a look may be older than a change that another client made at the same time.
pub trait AdminBackend: Send + Sync {
    /// Shows the contenders in the queues of a lock, first contender first, as far as they may be known; empty if there
    /// is no such lock. Of a semaphore it shows the permits, and then the contenders that wait for some. Whichever part
    /// `queue` names, it shows all parts of the lock. Of each contender that this library made, the ticket,
    /// the owner, the caller and `since_unix` are known.
    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>>;

    /// Names the locks that have contenders and whose names begin with `prefix`: each once, as [`Part::Line`], in the
    /// order of their names.
    ///
    /// [`Part::Line`]: crate::Part::Line
    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>>;

    /// Tells of the changes of all locks in a scope, from now on; `None` where the service cannot be followed, and a
    /// caller must look again and again. The capabilities say which ([`Following`](crate::Following)).
    ///
    /// It takes no part in any lock. It first tells of all locks, and does so again after each time in which it may
    /// have missed something, as after a reconnection: what it tells last of a lock is what [`inspect`](Self::inspect)
    /// shows once nothing changes. Changes that come in quick succession may be told as one. A
    /// connection that it needs is its own.
    ///
    /// # Panics
    ///
    /// If it is called outside a tokio runtime.
    fn follow(&self, _scope: &Scope) -> Option<Follower> {
        None
    }

    /// Removes what killed processes have left, where the service does not do so by itself and this user may. What
    /// cannot be removed stays, and does no harm.
    fn tidy(&self) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    /// Looks for what users of the service should know: settings that make locks worse, or a version with a known
    /// fault. Empty if there is nothing.
    ///
    /// It leaves nothing, and harms no lock. A brief one is made by each process at its first session, beside the locks
    /// that it is opened for: where the session is open it needs no other connection, and costs a request or two.
    fn examine(&self, _scrutiny: Scrutiny) -> BoxFuture<Result<Vec<Finding>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Lists what its users have left that the service does not remove by itself, or not yet: what belongs to no client
    /// for certain, and what blocks others without a sign of its owner. An empty queue counts once it has been unused
    /// for this long. A contender that lives is never among them; nor is a frozen lock, or a queue that has a value.
    ///
    /// It changes nothing.
    fn remnants(&self, _unused_for: Duration) -> BoxFuture<Result<Vec<Remnant>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Removes one of them if it is still as it was seen, and dead or unused at the moment of the removal; `false` if
    /// it is not. Where a client uses it in between, nothing is removed.
    fn remove(&self, _remnant: &Remnant) -> BoxFuture<Result<bool>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Does what an operator must who has restored the service's data from an older state: on etcd, whose own numbers
    /// come twice then, tokens are counted anew, above all that were granted before; on a database, where a holder's
    /// row may be lost, no lock is granted until every session of before has run out. Returns what was done.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported), permanent, where nothing can be done.
    fn after_restore(&self) -> BoxFuture<Result<Finding>> {
        unsupported("nothing can be done after a restore of this service's data")
    }

    /// Sets the longest timeout that a session may be opened with, on a database: for so long no lock is granted after
    /// a loss of data. After a longer one than before no lock is granted for as long, so that a standby learns of it
    /// first.
    ///
    /// # Errors
    ///
    /// Permanent while a session with a longer timeout is open, and where there is no such limit
    /// ([`Unsupported`](crate::ErrorKind::Unsupported)).
    fn limit_session_timeout(&self, _timeout_max: Duration) -> BoxFuture<Result<()>> {
        unsupported("this service's own configuration limits the timeouts of sessions")
    }

    /// Makes what the service must have before the first lock, or brings it up to this version: on a database, the
    /// schema. What is there stays. Most services need nothing, and nothing is done.
    ///
    /// # Errors
    ///
    /// Permanent if this user may not; the error says what to ask for.
    fn set_up(&self) -> BoxFuture<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns what [`set_up`](Self::set_up) does as text for the service's own client, with the rights that users of
    /// locks need, for an operator who does it by hand; `None` where nothing is needed. No connection is opened.
    fn set_up_text(&self) -> Option<String> {
        None
    }
}

fn unsupported<T: Send + 'static>(message: &'static str) -> BoxFuture<Result<T>> {
    let error = Error::permanent(ErrorKind::Unsupported, Operation::Configure, message);
    Box::pin(std::future::ready(Err(error)))
}
