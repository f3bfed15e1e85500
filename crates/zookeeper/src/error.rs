//! Why a request to ZooKeeper failed, and what follows from it.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{Advice, Error, ErrorKind, LossReason, Operation};
use lockkeeper_session::GIVE_CREDENTIALS;
use lockkeeper_zk_proto::client::{RequestError, SessionLoss, SubmitError, WhyUnanswered, WhyUnsent};
use lockkeeper_zk_proto::message::{ErrorCode, OpCode, RequestEffect};
use lockkeeper_zk_proto::path::ZnodePath;

/// The cure where a server does not know a request: queues are made of containers.
const OLDEST: &str = ": locks need ZooKeeper 3.5.3 or later";

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ClientErrorKind {
    /// The server refused it with this code.
    Refused(ErrorCode),
    /// The connection was lost, or could not be had, before there was an answer.
    ConnectionLost,
    /// There was no answer within the operation's deadline.
    Deadline,
    /// The session is over.
    SessionLost,
    /// The path is not valid.
    InvalidPath,
    /// A limit of this client was reached.
    LimitReached,
    /// The answer could not be understood.
    Protocol,
    /// There is no runtime to work in.
    NoRuntime,
    /// The configuration names something that cannot be used, such as a file of certificates.
    InvalidConfig,
    /// No server could be used as it is: its certificate was not accepted, or it did not accept ours.
    Untrusted,
}

/// Why a request failed: which operation, on which path, and whether trying again can help. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClientError {
    inner: Arc<ErrorDetails>,
}

#[derive(Debug)]
struct ErrorDetails {
    kind: ClientErrorKind,
    advice: Advice,
    operation: OpCode,
    path: String,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ClientError {
    pub(crate) fn new(
        kind: ClientErrorKind,
        advice: Advice,
        operation: OpCode,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let inner = ErrorDetails { kind, advice, operation, path: path.into(), message: message.into(), source: None };
        Self { inner: Arc::new(inner) }
    }

    /// Says that no server could be used, which were tried, and why if it was the same everywhere.
    pub(crate) fn unreachable(kind: ClientErrorKind, advice: Advice, message: String, why: Option<String>) -> Self {
        let (operation, path, source) = (OpCode::CreateSession, String::new(), why.map(Into::into));
        Self { inner: Arc::new(ErrorDetails { kind, advice, operation, path, message, source }) }
    }

    pub(crate) fn invalid_path(operation: OpCode, path: &str, reason: &impl fmt::Display) -> Self {
        Self::new(ClientErrorKind::InvalidPath, Advice::Permanent, operation, path, reason.to_string())
    }

    pub(crate) fn session_lost(operation: OpCode, path: &str) -> Self {
        Self::new(ClientErrorKind::SessionLost, Advice::Transient, operation, path, "the session is over")
    }

    /// Says that no task is left that could answer.
    pub(crate) fn abandoned(operation: OpCode, path: &str) -> Self {
        let message = "the runtime that kept the session has ended";
        Self::new(ClientErrorKind::SessionLost, Advice::Transient, operation, path, message)
    }

    /// Says that the service does not take our credentials, and has ended the session for it. Whatever was asked went
    /// with the session.
    pub(crate) fn unauthenticated(operation: OpCode, path: &str) -> Self {
        Self::unproven(ErrorCode::AuthFailed, operation, path)
    }

    fn unproven(code: ErrorCode, operation: OpCode, path: &str) -> Self {
        let message = format!(
            "the server answered {code}: it does not take the user and password, or was given none\
             {GIVE_CREDENTIALS}; a server that asks for SASL lets no client of Lockkeeper in"
        );
        Self::new(ClientErrorKind::Refused(code), Advice::Permanent, operation, path, message)
    }

    pub(crate) fn unanswered_in_time(operation: OpCode, path: &str) -> Self {
        Self::new(ClientErrorKind::Deadline, Advice::Transient, operation, path, "not answered before the deadline")
    }

    pub(crate) fn unexpected(operation: OpCode, path: &str) -> Self {
        let message = "the server answered another question";
        Self::new(ClientErrorKind::Protocol, Advice::Permanent, operation, path, message)
    }

    /// Says that the node does not exist that the URL takes for the root.
    pub(crate) fn no_chroot(chroot: &ZnodePath) -> Self {
        let (kind, operation) = (ClientErrorKind::InvalidConfig, OpCode::CreateSession);
        let message = format!("the chroot {chroot} does not exist; make that node, or name another one in the URL");
        Self::new(kind, Advice::Permanent, operation, "", message)
    }

    pub(crate) fn of_refusal(code: ErrorCode, operation: OpCode, path: &str) -> Self {
        let kind = match code {
            ErrorCode::AuthFailed | ErrorCode::SessionClosedRequireSaslAuth => {
                return Self::unproven(code, operation, path);
            }
            ErrorCode::SessionExpired => ClientErrorKind::SessionLost,
            code => ClientErrorKind::Refused(code),
        };
        let cure = if code == ErrorCode::Unimplemented { OLDEST } else { "" };
        let message = format!("the server answered {code}{cure}");
        Self::new(kind, advice_of(code), operation, path, message)
    }

    pub(crate) fn of_request(error: &RequestError, operation: OpCode, path: &str) -> Self {
        let (kind, advice) = match error {
            RequestError::Refused(code) => return Self::of_refusal(*code, operation, path),
            RequestError::NotSent(WhyUnsent::Over(SessionLoss::AuthFailed))
            | RequestError::Unanswered { why: WhyUnanswered::Over(SessionLoss::AuthFailed), .. } => {
                return Self::unauthenticated(operation, path);
            }
            RequestError::NotSent(WhyUnsent::Deadline) => (ClientErrorKind::Deadline, Advice::Transient),
            RequestError::NotSent(WhyUnsent::Over(_)) => (ClientErrorKind::SessionLost, Advice::Transient),
            RequestError::Unanswered { effect, why } => {
                let kind = match why {
                    WhyUnanswered::Deadline => ClientErrorKind::Deadline,
                    WhyUnanswered::ConnectionLost => ClientErrorKind::ConnectionLost,
                    WhyUnanswered::Over(_) => ClientErrorKind::SessionLost,
                };
                (kind, if *effect == RequestEffect::Write { Advice::Unknown } else { Advice::Transient })
            }
            _ => (ClientErrorKind::Protocol, Advice::Unknown),
        };
        Self::new(kind, advice, operation, path, error.to_string())
    }

    pub(crate) fn of_submission(error: SubmitError, operation: OpCode, path: &str) -> Self {
        let (kind, advice) = match error {
            SubmitError::Over(SessionLoss::AuthFailed) => return Self::unauthenticated(operation, path),
            SubmitError::Closing | SubmitError::Over(_) => return Self::session_lost(operation, path),
            SubmitError::QueueFull | SubmitError::TooMany => (ClientErrorKind::LimitReached, Advice::Transient),
            _ => (ClientErrorKind::LimitReached, Advice::Permanent),
        };
        Self::new(kind, advice, operation, path, error.to_string())
    }

    /// Returns what kind of failure it was.
    pub fn kind(&self) -> ClientErrorKind {
        self.inner.kind
    }

    /// Returns whether trying again can help.
    pub fn advice(&self) -> Advice {
        self.inner.advice
    }

    /// Returns the operation; opening a session is [`OpCode::CreateSession`].
    pub fn operation(&self) -> OpCode {
        self.inner.operation
    }

    /// Returns the path it was asked for; empty if there is none.
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// Returns the server's refusal, if it was one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self.inner.kind {
            ClientErrorKind::Refused(code) => Some(code),
            _ => None,
        }
    }

    pub(crate) fn is(&self, code: ErrorCode) -> bool {
        self.code() == Some(code)
    }

    pub(crate) fn into_core(self, operation: Operation, lost: Option<LossReason>) -> Error {
        let kind = match self.kind() {
            ClientErrorKind::Refused(code) => kind_of(code),
            ClientErrorKind::ConnectionLost | ClientErrorKind::Deadline => ErrorKind::ConnectionLost,
            ClientErrorKind::SessionLost => ErrorKind::Lost(lost.unwrap_or(LossReason::Expired)),
            ClientErrorKind::InvalidPath => ErrorKind::InvalidName,
            ClientErrorKind::LimitReached => ErrorKind::LimitReached,
            ClientErrorKind::Protocol => ErrorKind::Backend,
            ClientErrorKind::NoRuntime | ClientErrorKind::InvalidConfig => ErrorKind::InvalidConfig,
            ClientErrorKind::Untrusted => ErrorKind::Refused,
        };
        // Not as the message: the cause says it, and the message stays that of the kind.
        let error = match self.advice() {
            Advice::AskAgain => Error::ask_again(kind, operation, ""),
            Advice::Permanent => Error::permanent(kind, operation, ""),
            Advice::Transient => Error::transient(kind, operation, ""),
            Advice::Unknown => Error::unknown(kind, operation, ""),
        };
        error.caused_by(self)
    }

    /// Returns an error of locks: there was no answer in time, because of this failure of the connection.
    pub(crate) fn held_up_by(self, operation: Operation, trouble: Error) -> Error {
        let message = self.to_string();
        let error = match self.advice() {
            Advice::Unknown => Error::unknown(ErrorKind::ConnectionLost, operation, message),
            _ => Error::transient(ErrorKind::ConnectionLost, operation, message),
        };
        error.caused_by(trouble)
    }
}

/// Whether a refused request can succeed when it is tried again without any change of settings or data.
const fn advice_of(code: ErrorCode) -> Advice {
    match code {
        ErrorCode::ConnectionLoss
        | ErrorCode::OperationTimeout
        | ErrorCode::SessionMoved
        | ErrorCode::SessionExpired
        | ErrorCode::UnknownSession
        | ErrorCode::NotReadOnly
        | ErrorCode::NewConfigNoQuorum
        | ErrorCode::RequestTimeout
        | ErrorCode::ThrottledOp => Advice::Transient,
        _ => Advice::Permanent,
    }
}

const fn kind_of(code: ErrorCode) -> ErrorKind {
    match code {
        ErrorCode::NoAuth | ErrorCode::AuthFailed | ErrorCode::InvalidAcl | ErrorCode::SessionClosedRequireSaslAuth => {
            ErrorKind::Refused
        }
        ErrorCode::EphemeralOnLocalSession | ErrorCode::Unimplemented => ErrorKind::Unsupported,
        ErrorCode::QuotaExceeded => ErrorKind::LimitReached,
        ErrorCode::ConnectionLoss | ErrorCode::SessionMoved => ErrorKind::ConnectionLost,
        _ => ErrorKind::Backend,
    }
}

/// `create2 /lockkeeper/x: the server answered NoAuth (-102)`; the alternate form adds the cause.
impl fmt::Display for ClientError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorDetails { operation, path, message, source, .. } = &*self.inner;
        if *operation != OpCode::CreateSession {
            let operation = format!("{operation:?}");
            let (first, rest) = operation.split_at(1);
            write!(formatter, "{}{rest}", first.to_ascii_lowercase())?;
            if !path.is_empty() {
                write!(formatter, " {path}")?;
            }
            formatter.write_str(": ")?;
        }
        formatter.write_str(message)?;
        match source {
            Some(cause) if formatter.alternate() => write!(formatter, ": {cause}"),
            Some(_) | None => Ok(()),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref().map(|cause| &**cause as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_asked_where_and_what_came_of_it() {
        let error = ClientError::of_refusal(ErrorCode::NoAuth, OpCode::Create2, "/a/b");
        assert_eq!(error.to_string(), "create2 /a/b: the server answered NoAuth (-102)");
        assert_eq!(error.advice(), Advice::Permanent);
        let core = error.into_core(Operation::Join, None);
        assert_eq!((core.kind(), core.advice()), (ErrorKind::Refused, Advice::Permanent));
        assert_eq!(format!("{core:#}"), "join: access refused: create2 /a/b: the server answered NoAuth (-102)");
    }

    #[test]
    fn the_alternate_form_of_any_error_adds_its_cause() {
        for (operation, path, expected) in
            [(OpCode::CreateSession, "", "no session: no way"), (OpCode::Delete, "/a", "delete /a: no session: no way")]
        {
            let (kind, advice) = (ClientErrorKind::ConnectionLost, Advice::Transient);
            let (path, message, source) = (path.to_owned(), "no session".to_owned(), Some("no way".into()));
            let error =
                ClientError { inner: Arc::new(ErrorDetails { kind, advice, operation, path, message, source }) };
            assert_eq!(format!("{error:#}"), expected);
            assert_eq!(format!("{error}: no way"), expected);
        }
    }

    #[test]
    fn a_lost_reply_to_a_write_may_have_taken_effect_and_one_to_a_read_can_be_asked_again() {
        let why = WhyUnanswered::ConnectionLost;
        let error =
            |effect| ClientError::of_request(&RequestError::Unanswered { effect, why }, OpCode::Create2, "/a").advice();
        assert_eq!((error(RequestEffect::Write), error(RequestEffect::Read)), (Advice::Unknown, Advice::Transient));
        let unsent = RequestError::NotSent(WhyUnsent::Deadline);
        assert_eq!(ClientError::of_request(&unsent, OpCode::Create2, "/a").advice(), Advice::Transient);
    }
}
