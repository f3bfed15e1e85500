//! The one error of the library: what failed, at which lock, and whether trying again can help.

use std::fmt;
use std::sync::Arc;

use crate::liveness::LossReason;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

type ErrorSource = Arc<dyn std::error::Error + Send + Sync + 'static>;

/// What kind of failure it was.
///
/// In the guide: [what to do, by the advice](https://docs.rs/lockkeeper/latest/lockkeeper/guide/errors/index.html).
///
/// In the guide: [each kind of error](https://docs.rs/lockkeeper/latest/lockkeeper/guide/errors/index.html).
///
/// In the guide: [errors](https://docs.rs/lockkeeper/latest/lockkeeper/guide/errors/index.html).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The service failed in a way that has no other kind; the source says how.
    Backend,
    /// Holders of permits of the semaphore give another number of permits.
    BoundMismatch,
    /// The keeper, or the session under it, was closed by this process.
    Closed,
    /// The connection to the service broke, or could not be opened.
    ConnectionLost,
    /// The queue has an entry that may be the contender of an unknown client, so no order with it is certain.
    ForeignContender,
    /// A configuration that cannot work.
    InvalidConfig,
    /// A name that is not valid.
    InvalidName,
    /// The request can never be granted.
    InvalidRequest,
    /// A service URL that cannot be used.
    InvalidUrl,
    /// The queue belongs to another kind of lock.
    KindMismatch,
    /// A named limit was reached.
    LimitReached,
    /// The hold was lost before this was called.
    Lost(LossReason),
    /// Access was refused.
    Refused,
    /// Another client or an operator removed our contender from the queue.
    Removed,
    /// No holder has the token that was named.
    TokenMismatch,
    /// The service cannot do this.
    Unsupported,
    /// The caller holds what would have to be given up first, so it would wait for itself.
    WouldDeadlock,
}

impl ErrorKind {
    fn describe(self) -> &'static str {
        match self {
            Self::Backend => "the service failed",
            Self::BoundMismatch => "another number of permits is agreed on",
            Self::Closed => "closed",
            Self::ConnectionLost => "connection lost",
            Self::ForeignContender => "the queue has a contender of an unknown kind",
            Self::InvalidConfig => "unusable configuration",
            Self::InvalidName => "not a valid name",
            Self::InvalidRequest => "can never be granted",
            Self::InvalidUrl => "not a usable service URL",
            Self::KindMismatch => "the queue belongs to another kind of lock",
            Self::LimitReached => "limit reached",
            Self::Lost(_) => "the lock was lost",
            Self::Refused => "access refused",
            Self::Removed => "removed from the queue",
            Self::TokenMismatch => "no holder has this token",
            Self::Unsupported => "not supported by this service",
            Self::WouldDeadlock => "it would wait for itself",
        }
    }
}

/// Whether trying again can help.
///
/// ```
/// use lockkeeper::Advice;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let backup = keeper.mutex("nightly-backup")?;
/// let guard = backup.lock().await?;
/// keeper.testing().expect("a memory keeper").expire_session();
/// let lost = guard.release().await.expect_err("the hold was lost");
/// assert_eq!(lost.advice(), Advice::AskAgain);
/// backup.lock().await?.release().await
/// # }
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a caller handles every one")]
pub enum Advice {
    /// For this hold it cannot, since the hold was lost and does not come back; but the lock can be asked for again, by
    /// a keeper that is open. What was done under the hold may have been overtaken.
    AskAgain,
    /// It cannot: the same call fails again until the cause is removed.
    Permanent,
    /// It can: the call had no effect.
    Transient,
    /// The call may have taken effect; look before trying again. The library's own calls do so by their ticket.
    Unknown,
}

/// What was being done.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Checking a name, a URL or a setting.
    Configure,
    /// Opening a session.
    Connect,
    /// Closing a session.
    Close,
    /// Looking at queues without taking part.
    Inspect,
    /// Taking a place in a queue.
    Join,
    /// Leaving a queue, as a holder or as a waiter.
    Leave,
    /// Sending a request to a contender of any client.
    Request,
    /// Reading or writing the value of a queue.
    Value,
    /// Listing a queue in which we take part, or may.
    View,
    /// Waiting for the contender ahead.
    Wait,
}

impl Operation {
    fn describe(self) -> &'static str {
        match self {
            Self::Configure => "configure",
            Self::Connect => "connect",
            Self::Close => "close",
            Self::Inspect => "inspect",
            Self::Join => "join",
            Self::Leave => "leave",
            Self::Request => "request",
            Self::Value => "value",
            Self::View => "view",
            Self::Wait => "wait",
        }
    }
}

/// Why a call failed; cheap to clone, since one loss is reported to many waiters.
#[derive(Clone)]
pub struct Error {
    inner: Box<ErrorParts>,
}

#[derive(Clone)]
struct ErrorParts {
    kind: ErrorKind,
    advice: Advice,
    operation: Operation,
    lock: Option<Arc<str>>,
    message: String,
    source: Option<ErrorSource>,
}

impl Error {
    /// Makes an error that trying again cannot help.
    pub fn permanent(kind: ErrorKind, operation: Operation, message: impl Into<String>) -> Self {
        Self::new(kind, Advice::Permanent, operation, message.into())
    }

    /// Makes an error of a call that had no effect and may succeed if tried again.
    pub fn transient(kind: ErrorKind, operation: Operation, message: impl Into<String>) -> Self {
        Self::new(kind, Advice::Transient, operation, message.into())
    }

    /// Makes an error of a hold that was lost, whose lock can be asked for again.
    pub fn ask_again(kind: ErrorKind, operation: Operation, message: impl Into<String>) -> Self {
        Self::new(kind, Advice::AskAgain, operation, message.into())
    }

    /// Makes an error of a call that may have taken effect.
    pub fn unknown(kind: ErrorKind, operation: Operation, message: impl Into<String>) -> Self {
        Self::new(kind, Advice::Unknown, operation, message.into())
    }

    fn new(kind: ErrorKind, advice: Advice, operation: Operation, message: String) -> Self {
        Self { inner: Box::new(ErrorParts { kind, advice, operation, lock: None, message, source: None }) }
    }

    /// Adds the lock.
    #[must_use]
    pub fn at(mut self, lock: impl fmt::Display) -> Self {
        self.inner.lock = Some(lock.to_string().into());
        self
    }

    /// Adds the failure that caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.inner.source = Some(Arc::new(source));
        self
    }

    /// Returns what kind of failure it was.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns whether trying again can help.
    pub fn advice(&self) -> Advice {
        self.inner.advice
    }

    /// Tells whether trying again can help, and the call had no effect.
    pub fn is_transient(&self) -> bool {
        self.advice() == Advice::Transient
    }

    /// Tells whether a hold, or a place in the queue, was lost; [`Error::kind`] says why.
    pub fn is_lost(&self) -> bool {
        matches!(self.kind(), ErrorKind::Lost(_))
    }

    /// Returns what was being done.
    pub fn operation(&self) -> Operation {
        self.inner.operation
    }

    /// Returns the lock, if the call concerned one.
    pub fn lock(&self) -> Option<&str> {
        self.inner.lock.as_deref()
    }
}

/// One line: lock, operation and what happened. The cause is in its source; `{:#}` adds all causes.
impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorParts { kind, operation, lock, message, .. } = &*self.inner;
        if let Some(lock) = lock {
            write!(formatter, "{lock}: ")?;
        }
        if *operation != Operation::Configure {
            write!(formatter, "{}: ", operation.describe())?;
        }
        if message.is_empty() {
            formatter.write_str(kind.describe())?;
        } else {
            formatter.write_str(message)?;
        }
        if !formatter.alternate() {
            return Ok(());
        }
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            write!(formatter, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorParts { kind, advice, operation, lock, message, source } = &*self.inner;
        formatter
            .debug_struct("Error")
            .field("kind", kind)
            .field("advice", advice)
            .field("operation", operation)
            .field("lock", lock)
            .field("message", message)
            .field("source", source)
            .finish()
    }
}

/// For conversions that cannot fail.
impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_lock_and_operation_and_leaves_the_cause_to_its_source_but_for_the_alternate_form() {
        let error = Error::transient(ErrorKind::ConnectionLost, Operation::Join, "the server hung up")
            .at("nightly")
            .caused_by(std::io::Error::other("reset"));
        assert_eq!(error.to_string(), "nightly: join: the server hung up");
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "reset");
        assert_eq!(format!("{error:#}"), "nightly: join: the server hung up: reset");
        // An error of this library as the cause of another one is shown once too.
        let outer = Error::permanent(ErrorKind::Backend, Operation::Configure, "cannot start").caused_by(error.clone());
        assert_eq!(outer.to_string(), "cannot start");
        assert_eq!(format!("{outer:#}"), "cannot start: nightly: join: the server hung up: reset");
        assert!(error.is_transient() && !outer.is_transient());
    }

    #[test]
    fn an_error_tells_a_loss_from_everything_else() {
        let lost = Error::transient(ErrorKind::Lost(LossReason::Expired), Operation::Wait, "");
        assert!(lost.is_lost() && lost.is_transient());
        assert!(!Error::permanent(ErrorKind::Removed, Operation::Wait, "").is_lost());
    }
}
