//! Why a request failed, whether it may have taken effect, and what it is to a caller of locks.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{Error, ErrorKind, LossReason, Operation};

use crate::url::Server;

/// Whether a request that failed may have taken effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Effect {
    /// It did not reach the server, or the server has refused it.
    None,
    /// It may have, or may still.
    Unknown,
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FailureKind {
    /// The connection ended, or could not be opened.
    Broken,
    /// Other transactions hold our rows, or the statement took longer than it may.
    Busy,
    /// There was no answer in time.
    Deadline,
    /// The disk, or another store of the server, is full.
    Full,
    /// More was asked for at a time than a named limit of ours.
    Limit,
    /// The other end does not speak as this database does.
    Protocol,
    /// The server only reads: it is a standby, or was told to.
    ReadOnly,
    /// The server does not let this user do it or does not know the user, or one end does not trust the other.
    Refused,
    /// There is no such session.
    SessionGone,
    /// The service is not as the URL says.
    Settings,
    /// The server cannot do it now: it starts, ends, or has too many connections.
    Unavailable,
    /// The server does not have what locks need.
    Unsupported,
    /// The service refused it for another reason.
    Other,
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) effect: Effect,
    /// Which server it was, if that is known.
    server: Option<Server>,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, effect: Effect, message: impl Into<String>) -> Self {
        Self { kind, effect, server: None, message: message.into(), source: None }
    }

    pub(crate) fn broken(effect: Effect) -> Self {
        Self::new(FailureKind::Broken, effect, "the connection ended before there was an answer")
    }

    pub(crate) fn late(effect: Effect) -> Self {
        Self::new(FailureKind::Deadline, effect, "not answered before the deadline")
    }

    /// Says that an answer is not what was asked for.
    pub(crate) fn unexpected() -> Self {
        Self::new(FailureKind::Protocol, Effect::Unknown, "the server answered another question")
    }

    /// Says that a server could not be reached.
    pub(crate) fn unreachable(
        message: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self { source: Some(Arc::new(source)), ..Self::new(FailureKind::Broken, Effect::None, message) }
    }

    /// Says that one end of a TLS connection does not trust the other. Only a change of settings or certificates can
    /// help.
    #[cfg(feature = "tls")]
    pub(crate) fn untrusted(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, Effect::None, message)
    }

    /// Says that the other end speaks, but not as this database does.
    pub(crate) fn stranger(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Protocol, Effect::None, message)
    }

    /// Adds what lies below.
    pub(crate) fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Adds what may be wrong.
    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.message.push_str(hint);
        self
    }

    /// Adds which server it was, unless that is known.
    pub(crate) fn at(mut self, server: &Server) -> Self {
        self.server.get_or_insert_with(|| server.clone());
        self
    }

    /// Whether another attempt can succeed without any change of settings or data.
    pub(crate) const fn is_passing(&self) -> bool {
        use FailureKind::{Broken, Busy, Deadline, ReadOnly, Unavailable};
        matches!(self.kind, Broken | Busy | Deadline | ReadOnly | Unavailable)
    }

    /// Whether nothing can be had from this connection any more, so that a server is to be found anew.
    pub(crate) const fn needs_another(&self) -> bool {
        matches!(self.kind, FailureKind::Broken | FailureKind::ReadOnly)
    }

    /// Turns it into an error of locks. `is_write` says whether the request changes anything.
    pub(crate) fn into_core(self, operation: Operation, is_write: bool) -> Error {
        let kind = match self.kind {
            FailureKind::SessionGone => ErrorKind::Lost(LossReason::Expired),
            FailureKind::Full | FailureKind::Limit => ErrorKind::LimitReached,
            FailureKind::Refused => ErrorKind::Refused,
            FailureKind::Settings => ErrorKind::InvalidConfig,
            FailureKind::Unsupported => ErrorKind::Unsupported,
            FailureKind::Protocol | FailureKind::Other => ErrorKind::Backend,
            _ => ErrorKind::ConnectionLost,
        };
        let may_have_happened = is_write && self.effect == Effect::Unknown;
        let can_succeed =
            self.is_passing() || matches!(self.kind, FailureKind::SessionGone | FailureKind::Full | FailureKind::Limit);
        let message = self.to_string();
        let error = match (may_have_happened, can_succeed) {
            (true, _) => Error::unknown(kind, operation, message),
            (false, true) => Error::transient(kind, operation, message),
            (false, false) => Error::permanent(kind, operation, message),
        };
        match self.source {
            Some(source) => error.caused_by(Cause(source)),
            None => error,
        }
    }
}

/// `h1:5432: the server starts`
impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            write!(formatter, "{server}: ")?;
        }
        formatter.write_str(&self.message)
    }
}

/// A cause that is shared by the errors of several requests.
#[derive(Debug)]
struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What a parser could not read may have lines; an error has one.
        let text = self.0.to_string();
        formatter.write_str(text.lines().next().unwrap_or_default())
    }
}

impl std::error::Error for Cause {}

#[cfg(test)]
mod tests {
    use lockkeeper_core::Advice;

    use super::*;

    #[test]
    fn a_failure_says_whether_trying_again_can_help_and_whether_it_may_have_happened() {
        for (kind, effect, is_write, advice) in [
            (FailureKind::Broken, Effect::None, true, Advice::Transient),
            (FailureKind::Broken, Effect::Unknown, true, Advice::Unknown),
            (FailureKind::Broken, Effect::Unknown, false, Advice::Transient),
            (FailureKind::Full, Effect::None, true, Advice::Transient),
            (FailureKind::Limit, Effect::None, true, Advice::Transient),
            (FailureKind::SessionGone, Effect::None, true, Advice::Transient),
            (FailureKind::Busy, Effect::None, true, Advice::Transient),
            (FailureKind::Refused, Effect::None, true, Advice::Permanent),
            (FailureKind::Unsupported, Effect::None, true, Advice::Permanent),
            (FailureKind::Other, Effect::Unknown, false, Advice::Permanent),
        ] {
            let error = Failure::new(kind, effect, "why").into_core(Operation::Join, is_write);
            assert_eq!(error.advice(), advice, "{kind:?} {effect:?} {is_write}");
        }
    }
}
