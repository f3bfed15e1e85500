//! Why a call failed, whether it may have taken effect, and what it is to a caller of locks.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{Error, ErrorKind, LossReason, Operation};
use tonic::{Code, Status};

/// Whether a call that failed may have taken effect.
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
    /// There was no answer in time.
    Deadline,
    /// There is no such lease.
    LeaseNotFound,
    /// The service's database is full.
    NoSpace,
    /// The service does not let this user do it, or does not know the user.
    Refused,
    /// The service cannot do it now: it has no leader, or changes it, or is overloaded.
    Unavailable,
    /// The revision that was to be read is compacted.
    Compacted,
    /// The other end does not speak as etcd does.
    Protocol,
    /// The service refused it for another reason.
    Other,
}

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) effect: Effect,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The connector's answer when it is asked for a second socket: the first has ended, and nothing was sent.
#[derive(Debug)]
pub(super) struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the connection has ended")
    }
}

impl std::error::Error for Gone {}

/// What etcd says when its database is full, whichever version it is.
const NO_SPACE: &str = "database space exceeded";

/// What etcd says when a user lacks a right, and when there is no user, or not this one.
const RIGHTS: [&str; 3] = ["permission denied", "user name is empty", "invalid user ID or password"];

/// What the HTTP/2 driver says of an answer in HTTP/1.
const NOT_HTTP2: &str = "frame with invalid size";

impl Failure {
    pub(crate) fn new(kind: FailureKind, effect: Effect, message: impl Into<String>) -> Self {
        Self { kind, effect, message: message.into(), source: None }
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
    pub(super) fn unreachable(
        message: String,
        source: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
    ) -> Self {
        let source: Box<dyn std::error::Error + Send + Sync> = source.into();
        Self { kind: FailureKind::Broken, effect: Effect::None, message, source: Some(Arc::from(source)) }
    }

    /// Says that there was no TLS handshake, or none that can be trusted. Only a change of settings or certificates can
    /// help where the other end was heard.
    pub(super) fn of_handshake(error: tonic::transport::Error, is_secured: bool) -> Self {
        let message = match is_secured {
            true => {
                "the TLS handshake failed; `ca` names the authority to trust, and a server without TLS needs `etcd:`"
            }
            false => "cannot be used",
        };
        let failed = Self::unreachable(message.to_owned(), error);
        let is_broken = failed.source.as_deref().is_some_and(|source| {
            has_cause(source, |cause| {
                cause
                    .downcast_ref::<std::io::Error>()
                    .is_some_and(|error| error.kind() != std::io::ErrorKind::InvalidData)
            })
        });
        if is_secured && !is_broken { Self { kind: FailureKind::Refused, ..failed } } else { failed }
    }

    /// Tells the failures of this end from the answers of the other.
    pub(super) fn of_status(status: Status) -> Self {
        let is_local = std::error::Error::source(&status).is_some();
        let (kind, effect) = if is_local { of_transport(&status) } else { of_answer(status.code(), status.message()) };
        let message = match (is_local, kind) {
            (false, _) => status.message().to_owned(),
            (true, FailureKind::Protocol) => "the server does not speak as etcd does".to_owned(),
            (true, _) => "the connection ended before there was an answer".to_owned(),
        };
        let source = is_local.then(|| Arc::new(status) as Arc<dyn std::error::Error + Send + Sync>);
        Self { kind, effect, message, source }
    }

    /// Adds which member it was.
    pub(crate) fn at(mut self, server: &crate::url::Server) -> Self {
        self.message = format!("{server}: {}", self.message);
        self
    }

    /// Adds which member it was, and what may be wrong if the first call on a connection found no answer: until then a
    /// connection to a server that speaks otherwise looks like any other.
    pub(crate) fn of_first_call(self, server: &crate::url::Server, access: &crate::url::Access) -> Self {
        let mut failure = self.at(server);
        if failure.kind == FailureKind::Broken {
            let hint = match access.is_secured() {
                true => "; a server that asks for a certificate needs `cert` and `key` in the URL",
                false => "; if it is an etcd that speaks TLS, the URL must begin with `etcd+tls:`",
            };
            failure.message.push_str(hint);
        }
        failure
    }

    /// Adds which keys a user must be allowed to use, if that may be why it failed.
    pub(crate) fn for_lack_of(mut self, rights: &str) -> Self {
        if self.kind == FailureKind::Refused && RIGHTS.iter().any(|word| self.message.contains(word)) {
            let message = &self.message;
            self.message = format!("{message}: the URL must name a user who may read and write {rights}");
        }
        self
    }

    /// Whether another attempt can succeed without any change of settings or data.
    pub(crate) const fn is_passing(&self) -> bool {
        matches!(
            self.kind,
            FailureKind::Broken | FailureKind::Deadline | FailureKind::Unavailable | FailureKind::Compacted
        )
    }

    /// Turns it into an error of locks. `is_write` says whether the call changes anything.
    pub(crate) fn into_core(self, operation: Operation, is_write: bool) -> Error {
        let kind = match self.kind {
            FailureKind::Broken | FailureKind::Deadline | FailureKind::Unavailable | FailureKind::Compacted => {
                ErrorKind::ConnectionLost
            }
            FailureKind::LeaseNotFound => ErrorKind::Lost(LossReason::Expired),
            FailureKind::NoSpace => ErrorKind::LimitReached,
            FailureKind::Refused => ErrorKind::Refused,
            FailureKind::Protocol | FailureKind::Other => ErrorKind::Backend,
        };
        let may_have_happened = is_write && self.effect == Effect::Unknown;
        let can_succeed = self.is_passing() || matches!(self.kind, FailureKind::LeaseNotFound | FailureKind::NoSpace);
        let message = match self.kind {
            FailureKind::NoSpace => {
                "etcd's database is full: free space by compaction and defragmentation, and disarm \
                                     its NOSPACE alarm"
                    .to_owned()
            }
            _ => self.message.clone(),
        };
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

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// A cause that is shared by the errors of several calls.
#[derive(Debug)]
struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A chain of transport errors says the same in each link; the last one says what happened.
        let mut last: &(dyn std::error::Error + 'static) = &*self.0;
        while let Some(next) = last.source() {
            last = next;
        }
        write!(formatter, "{last}")
    }
}

impl std::error::Error for Cause {}

/// Judges a failure of this end. A request that was handed back from the driver's queue was not sent.
fn of_transport(status: &Status) -> (FailureKind, Effect) {
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        if error.is::<Gone>() || error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
            return (FailureKind::Broken, Effect::None);
        }
        if error.to_string().contains(NOT_HTTP2) {
            return (FailureKind::Protocol, Effect::None);
        }
        cause = error.source();
    }
    (FailureKind::Broken, Effect::Unknown)
}

/// Whether an error or one of its causes is meant.
fn has_cause(
    error: &(dyn std::error::Error + 'static),
    is_meant: impl Fn(&(dyn std::error::Error + 'static)) -> bool,
) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if is_meant(error) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Judges an answer of the server.
fn of_answer(code: Code, message: &str) -> (FailureKind, Effect) {
    match code {
        Code::NotFound if message.contains("lease not found") => (FailureKind::LeaseNotFound, Effect::None),
        Code::ResourceExhausted if message.contains(NO_SPACE) => (FailureKind::NoSpace, Effect::None),
        Code::ResourceExhausted => (FailureKind::Unavailable, Effect::None),
        // A token runs out; the next connection gets another one.
        Code::Unauthenticated if message.contains("invalid auth token") => (FailureKind::Broken, Effect::None),
        // The rights were changed since the token was given.
        Code::InvalidArgument if message.contains("revision of auth store is old") => {
            (FailureKind::Broken, Effect::None)
        }
        Code::Unauthenticated | Code::PermissionDenied => (FailureKind::Refused, Effect::None),
        Code::InvalidArgument | Code::FailedPrecondition if message.contains("auth") || message.contains("user") => {
            (FailureKind::Refused, Effect::None)
        }
        Code::Unimplemented => (FailureKind::Protocol, Effect::None),
        // The pages of a look are of one revision, which was compacted meanwhile; the next look begins with another.
        Code::OutOfRange if message.contains("compacted") => (FailureKind::Compacted, Effect::None),
        Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound => (FailureKind::Other, Effect::None),
        // Without a leader, or while it changes, a request may still be taken in later.
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => (FailureKind::Unavailable, Effect::Unknown),
        _ => (FailureKind::Other, Effect::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::Advice;

    use super::*;

    fn error(code: Code, message: &str, is_write: bool) -> Error {
        Failure::of_status(Status::new(code, message)).into_core(Operation::Join, is_write)
    }

    #[test]
    fn an_answer_of_the_server_says_whether_trying_again_can_help() {
        for (code, message, kind, advice) in [
            (
                Code::NotFound,
                "etcdserver: requested lease not found",
                ErrorKind::Lost(LossReason::Expired),
                Advice::Transient,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                ErrorKind::LimitReached,
                Advice::Transient,
            ),
            (Code::PermissionDenied, "etcdserver: permission denied", ErrorKind::Refused, Advice::Permanent),
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                ErrorKind::Refused,
                Advice::Permanent,
            ),
            (Code::Unauthenticated, "etcdserver: invalid auth token", ErrorKind::ConnectionLost, Advice::Transient),
            (Code::Unavailable, "etcdserver: leader changed", ErrorKind::ConnectionLost, Advice::Unknown),
            (Code::Unimplemented, "unknown service", ErrorKind::Backend, Advice::Permanent),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                ErrorKind::ConnectionLost,
                Advice::Transient,
            ),
            // This end says so of an answer, and the request has taken effect.
            (Code::OutOfRange, "Error, decoded message length too large", ErrorKind::Backend, Advice::Unknown),
        ] {
            let error = error(code, message, true);
            assert_eq!((error.kind(), error.advice()), (kind, advice), "{message}");
        }
        let read = error(Code::Unavailable, "etcdserver: request timed out", false);
        assert_eq!(read.advice(), Advice::Transient, "a read can be asked again");
    }

    #[test]
    fn a_request_that_was_never_sent_had_no_effect() {
        let failure = Failure::of_status(Status::from_error(Box::new(Gone)));
        assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::None));
        let failure = Failure::of_status(Status::from_error(Box::new(std::io::Error::other("reset"))));
        assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::Unknown));
    }
}
