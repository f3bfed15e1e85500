//! Why a request failed, whether it may have taken effect, and what it is to a caller of locks.
//!
//! This is the one place that says which failures pass by themselves. What a service's own answers mean, its backend
//! knows.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use lockkeeper_core::{Error, ErrorKind, LossReason, Operation};
#[cfg(feature = "tls")]
use lockkeeper_tls::HandshakeError;

use crate::{Link, Server};

/// What a user does whose service asks for a password that it was not given: said behind that.
pub const GIVE_CREDENTIALS: &str = "; a program names the user and the password in the URL, before the host \
     (`USER:PASSWORD@`), and the command in LOCKKEEPER_USER and LOCKKEEPER_PASSWORD, or LOCKKEEPER_PASSWORD_FILE";

/// Whether a request that failed may have taken effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// It did not reach the server, or the server has refused it.
    None,
    /// It may have, or may still.
    Unknown,
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FailureKind {
    /// The connection ended, or could not be opened.
    Broken,
    /// Other transactions hold our rows, or the statement took longer than it may.
    Busy,
    /// The state that was to be read is kept no longer.
    Compacted,
    /// There was no answer in time.
    Deadline,
    /// What was to be made is there.
    Exists,
    /// The memory, the disk, or another store of the server is full.
    Full,
    /// More was asked for at a time than a named limit of ours.
    Limit,
    /// What was asked for lies on another server.
    Moved,
    /// The service has more to do than it can, and turns requests away.
    Overloaded,
    /// The other end does not speak as this service does.
    Protocol,
    /// The server only reads: it is a replica or a standby, or was told to.
    ReadOnly,
    /// The server does not let this user do it or does not know the user, or one end does not trust the other.
    Refused,
    /// There is no such session.
    SessionGone,
    /// The service is not as the URL says.
    Settings,
    /// Too few replicas have what was written, or could have it.
    TooFewReplicas,
    /// The service cannot do it now: it starts, ends, has no leader, or is busy.
    Unavailable,
    /// The server does not have what locks need.
    Unsupported,
    /// The service refused it for another reason.
    Other,
}

impl FailureKind {
    /// Whether another attempt can succeed without any change of settings or data.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        matches!(self.to_caller(), (ErrorKind::ConnectionLost, _))
    }

    /// What it is to a caller of locks, and whether another attempt can succeed.
    const fn to_caller(self) -> (ErrorKind, bool) {
        match self {
            Self::SessionGone => (ErrorKind::Lost(LossReason::Expired), true),
            Self::Full | Self::Limit => (ErrorKind::LimitReached, true),
            Self::Refused => (ErrorKind::Refused, false),
            Self::Settings => (ErrorKind::InvalidConfig, false),
            Self::Unsupported => (ErrorKind::Unsupported, false),
            Self::Exists | Self::Protocol | Self::Other => (ErrorKind::Backend, false),
            Self::Broken
            | Self::Busy
            | Self::Compacted
            | Self::Deadline
            | Self::Moved
            | Self::Overloaded
            | Self::ReadOnly
            | Self::TooFewReplicas
            | Self::Unavailable => (ErrorKind::ConnectionLost, true),
        }
    }
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What kind of failure it was.
    pub kind: FailureKind,
    /// Whether the request may have taken effect.
    pub effect: Effect,
    /// Which server it was, if that is known.
    server: Option<Box<Server>>,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    /// Where what was asked for lies, if the server has said so.
    moved_to: Option<Box<Server>>,
}

impl Failure {
    /// A failure in these words, each of which a reader must see in one line.
    pub fn new(kind: FailureKind, effect: Effect, message: impl Into<String>) -> Self {
        Self { kind, effect, server: None, message: message.into(), source: None, moved_to: None }
    }

    /// Says that the connection ended before there was an answer.
    pub fn broken(effect: Effect) -> Self {
        Self::new(FailureKind::Broken, effect, "the connection ended before there was an answer")
    }

    /// Says that there was no answer in time.
    pub fn late(effect: Effect) -> Self {
        Self::new(FailureKind::Deadline, effect, "not answered before the deadline")
    }

    /// Says that an answer is not what was asked for.
    pub fn unexpected() -> Self {
        Self::new(FailureKind::Protocol, Effect::Unknown, "the server answered another question")
    }

    /// Says that a server could not be reached.
    pub fn unreachable(message: impl Into<String>, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(FailureKind::Broken, Effect::None, message).caused_by(source)
    }

    /// Says that one end of a TLS connection does not trust the other. Only a change of settings or certificates can
    /// help.
    pub fn untrusted(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, Effect::None, message)
    }

    /// Says why there was no TLS handshake, or none that can be trusted. Where the server may not speak TLS at all,
    /// `plain` is the scheme of a URL without it.
    #[cfg(feature = "tls")]
    pub fn of_handshake(error: &HandshakeError, plain: &str) -> Self {
        let told = error.to_string();
        let without_tls = || format!("; a server without TLS needs `{plain}:`");
        match error {
            HandshakeError::Refused(_) => Self::untrusted(told),
            HandshakeError::NotTls => Self::untrusted(told + &without_tls()),
            HandshakeError::HungUp => Self::new(FailureKind::Broken, Effect::None, told + &without_tls()),
            HandshakeError::Broken(_) => Self::new(FailureKind::Broken, Effect::None, told),
        }
    }

    /// Says why a stream could not be opened or read. [`io::ErrorKind::InvalidData`] will not pass until a setting or a
    /// certificate is changed, and [`io::ErrorKind::Unsupported`] says that the other end speaks another protocol.
    pub fn of_io(error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::InvalidData => FailureKind::Refused,
            io::ErrorKind::Unsupported => FailureKind::Protocol,
            io::ErrorKind::TimedOut => FailureKind::Deadline,
            _ => FailureKind::Broken,
        };
        Self::new(kind, Effect::None, error.to_string())
    }

    /// Says it as an error of a stream, for a driver that reads and writes one.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        let kind = match self.kind {
            FailureKind::Protocol => io::ErrorKind::Unsupported,
            kind if kind.is_passing() => io::ErrorKind::ConnectionAborted,
            _ => io::ErrorKind::InvalidData,
        };
        let message = match self.source() {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        };
        io::Error::new(kind, message)
    }

    /// Tells by the first bytes that a server sends over a connection without TLS that it is not the service. `scheme`
    /// is that of a URL without TLS.
    pub(crate) fn of_first_bytes(first: &[u8], scheme: &str) -> Option<Self> {
        // An alert of any version, by which a TLS server says that it was not greeted in TLS (RFC 8446, section 6).
        const TLS_ALERT: [u8; 2] = [21, 3];
        if first.starts_with(&TLS_ALERT) {
            let message = format!("the server speaks TLS, so the URL must begin with `{scheme}+tls:`");
            return Some(Self::stranger(message));
        }
        let is_http = first.starts_with(b"HTTP");
        is_http.then(|| Self::stranger(format!("this is an HTTP server, and none for `{scheme}:`")))
    }

    /// Says that the other end speaks, but not as this service does.
    pub fn stranger(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Protocol, Effect::None, message)
    }

    /// Says that the service does not know the session.
    pub fn session_gone() -> Self {
        Self::new(FailureKind::SessionGone, Effect::None, "the session has ended")
    }

    /// Says that no connection of the session comes any more.
    pub(crate) fn session_over() -> Self {
        Self::new(FailureKind::SessionGone, Effect::None, "the session is over")
    }

    /// Says that a later connection has the session, so that this one is of no use.
    pub fn superseded() -> Self {
        Self::new(FailureKind::Broken, Effect::None, "a later connection has the session")
    }

    /// Reads the word by which a service refuses a session or one of its connections: one that is not the latest is of
    /// no use any more.
    pub fn refused(word: &str, link: &impl Link) -> Self {
        match word {
            "gone" => Self::session_gone(),
            "stale" => {
                link.shut();
                Self::superseded()
            }
            _ => Self::unexpected(),
        }
    }

    /// Says that what was asked for lies elsewhere. Without a name that is on the same host.
    pub fn moved(message: impl Into<String>, moved_to: Option<Server>) -> Self {
        Self { moved_to: moved_to.map(Box::new), ..Self::new(FailureKind::Moved, Effect::None, message) }
    }

    /// Adds what lies below.
    #[must_use]
    pub fn caused_by(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: Some(Arc::from(source.into())), ..self }
    }

    /// Adds what may be wrong.
    #[must_use]
    pub fn with_hint(mut self, hint: &str) -> Self {
        self.message.push_str(hint);
        self
    }

    /// Adds who said so.
    #[must_use]
    pub fn said_by(self, speaker: &str) -> Self {
        Self { message: format!("{speaker}: {}", self.message), ..self }
    }

    /// Adds which server it was, unless that is known.
    #[must_use]
    pub fn at(mut self, server: &Server) -> Self {
        self.server.get_or_insert_with(|| Box::new(server.clone()));
        self
    }

    /// Returns what lies below.
    pub fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }

    /// Returns where what was asked for lies, if the server has named another one. Without a name it is on the same
    /// host.
    pub fn moved_to(&self) -> Option<&Server> {
        self.moved_to.as_deref()
    }

    /// Whether another attempt can succeed without any change of settings or data.
    pub const fn is_passing(&self) -> bool {
        self.kind.is_passing()
    }

    /// Whether nothing can be had from this connection any more, so that a server is to be found anew.
    pub const fn needs_another(&self) -> bool {
        matches!(self.kind, FailureKind::Broken | FailureKind::Moved | FailureKind::ReadOnly)
    }

    /// Whether the server has turned us away for now: the connection is of use, and the same may be asked over it
    /// again. With another connection to serve, a server that has too much to do would have more.
    pub fn keeps_connection(&self) -> bool {
        self.is_passing() && self.effect == Effect::None && !self.needs_another()
    }

    /// Turns it into an error of locks. `is_write` says whether the request changes anything.
    pub fn into_core(self, operation: Operation, is_write: bool) -> Error {
        let (kind, can_succeed) = self.kind.to_caller();
        let message = self.to_string();
        let error = match (is_write && self.effect == Effect::Unknown, can_succeed) {
            (true, _) => Error::unknown(kind, operation, message),
            (false, true) => Error::transient(kind, operation, message),
            (false, false) => Error::permanent(kind, operation, message),
        };
        match self.source {
            Some(source) => error.caused_by(SharedCause(source)),
            None => error,
        }
    }
}

/// `h1:6379: the server is loading its data`
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
struct SharedCause(Arc<dyn StdError + Send + Sync>);

impl fmt::Display for SharedCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A chain says the same in each link; the last one says what happened.
        let mut last: &(dyn StdError + 'static) = &*self.0;
        while let Some(next) = last.source() {
            last = next;
        }
        // What a parser could not read may have lines; an error has one.
        formatter.write_str(last.to_string().lines().next().unwrap_or_default())
    }
}

impl StdError for SharedCause {}

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
            (FailureKind::TooFewReplicas, Effect::None, true, Advice::Transient),
            (FailureKind::Refused, Effect::None, true, Advice::Permanent),
            (FailureKind::Unsupported, Effect::None, true, Advice::Permanent),
            (FailureKind::Other, Effect::Unknown, false, Advice::Permanent),
        ] {
            let error = Failure::new(kind, effect, "why").into_core(Operation::Join, is_write);
            assert_eq!(error.advice(), advice, "{kind:?} {effect:?} {is_write}");
        }
    }

    #[test]
    fn an_error_is_one_line_also_where_garbage_came() {
        let garbage = "Unexpected `H`\nExpected `+`";
        let told =
            format!("{:#}", Failure::stranger("no Redis").caused_by(garbage).into_core(Operation::Connect, false));
        assert!(told.contains("no Redis") && told.contains("Unexpected `H`") && !told.contains('\n'), "{told}");
    }
}
