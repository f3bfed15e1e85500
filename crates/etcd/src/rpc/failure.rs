//! The meaning of calls' failures: what etcd says, and what the driver of HTTP/2 and TLS says.

use std::fmt;

use lockkeeper_session::{Effect, Failure, FailureKind, GIVE_CREDENTIALS, Server};
use tonic::{Code, Status};

use crate::url::EtcdAccess;

/// The connector's answer when it is asked for a second socket: the first has ended, and nothing was sent.
#[derive(Debug)]
pub(super) struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the connection has ended")
    }
}

impl std::error::Error for Gone {}

/// etcd's message for a full database, in all versions.
const NO_SPACE: &str = "database space exceeded";

/// etcd's message for a request that it does not begin, since it is far behind; 3.4 has no code for it.
const TOO_MANY: &str = "too many requests";

/// etcd's message for a renewal that it has not begun, since what was committed before is not applied within a second.
const BEHIND: &str = "waiting for the applied index took too long";

/// etcd's message for a request that it has not taken in within its time, and may still; it has more words where a
/// leader or a connection was lost.
const TIMED_OUT: &str = "etcdserver: request timed out";

/// What a member says, without a code, whose log took no entry for a request within its time.
const NOT_PROPOSED: &str = "context deadline exceeded";

/// etcd's message for a request without a user.
const NO_USER: &str = "user name is empty";

/// etcd's messages for a missing right, a missing user and an unknown user.
const RIGHTS: [&str; 3] = ["permission denied", NO_USER, "invalid user ID or password"];

/// The HTTP/2 driver's message for an answer in HTTP/1.
const NOT_HTTP2: &str = "frame with invalid size";

pub(crate) fn no_room() -> Failure {
    let message = "etcd's database is full: free space by compaction and defragmentation, and disarm its NOSPACE alarm";
    Failure::new(FailureKind::Full, Effect::None, message)
}

/// Whether a member says that it cannot do it now: it is there, and has no leader or too much to do.
pub(crate) const fn is_turned_away(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Unavailable | FailureKind::Overloaded)
}

/// Separates failures of this end from answers of the server.
pub(super) fn of_status(status: Status) -> Failure {
    if std::error::Error::source(&status).is_none() {
        return of_answer(status.code(), status.message());
    }
    of_transport(&status).caused_by(status)
}

/// Adds which member it was, and what may be wrong if the first call on a connection found no answer: until then a
/// connection to a server that speaks otherwise looks like any other.
pub(super) fn of_first_call(failure: Failure, server: &Server, access: &EtcdAccess) -> Failure {
    let failure = failure.at(server);
    match failure.kind {
        FailureKind::Broken if !access.is_secured => {
            failure.with_hint("; if it is an etcd that speaks TLS, the URL must begin with `etcd+tls:`")
        }
        _ => failure,
    }
}

/// Adds which keys a user must be allowed to use, if that may be why it failed.
pub(super) fn for_lack_of(failure: Failure, rights: &str) -> Failure {
    let said = failure.to_string();
    if failure.kind == FailureKind::Refused && RIGHTS.iter().any(|word| said.contains(word)) {
        let given = if said.contains(NO_USER) { GIVE_CREDENTIALS } else { "" };
        return failure.with_hint(&format!(": the URL must name a user who may read and write {rights}{given}"));
    }
    failure
}

/// Judges a failure of this end. A request that was handed back from the driver's queue was not sent.
fn of_transport(status: &Status) -> Failure {
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        if error.is::<Gone>() || error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
            return Failure::broken(Effect::None);
        }
        if error.to_string().contains(NOT_HTTP2) {
            return Failure::stranger("the server does not speak as etcd does");
        }
        cause = error.source();
    }
    Failure::broken(Effect::Unknown)
}

fn of_answer(code: Code, message: &str) -> Failure {
    let (kind, effect) = match code {
        Code::ResourceExhausted if message.contains(NO_SPACE) => return no_room(),
        Code::FailedPrecondition if message.contains("lease already exists") => (FailureKind::Exists, Effect::None),
        Code::NotFound if message.contains("lease not found") => (FailureKind::SessionGone, Effect::None),
        _ if message == TIMED_OUT => (FailureKind::Overloaded, Effect::Unknown),
        _ if message.contains(TOO_MANY) || message.contains(BEHIND) => (FailureKind::Overloaded, Effect::None),
        Code::ResourceExhausted => (FailureKind::Unavailable, Effect::None),
        // A token has expired; the next connection gets another one.
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
        _ if message.contains(NOT_PROPOSED) => (FailureKind::Overloaded, Effect::Unknown),
        _ => (FailureKind::Other, Effect::Unknown),
    };
    Failure::new(kind, effect, message)
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{Advice, Error, ErrorKind, LossReason, Operation};

    use super::*;

    fn error(code: Code, message: &str, is_write: bool) -> Error {
        of_status(Status::new(code, message)).into_core(Operation::Join, is_write)
    }

    #[test]
    fn a_member_that_is_far_behind_keeps_its_connections_and_one_without_a_leader_does_not() {
        for (code, message, keeps) in [
            (Code::Unknown, "etcdserver: too many requests", true),
            (Code::ResourceExhausted, "etcdserver: too many requests", true),
            (Code::Unavailable, "etcdserver: request timed out, waiting for the applied index took too long", true),
            (Code::Unavailable, "etcdserver: no leader", false),
            (Code::Unavailable, "etcdserver: request timed out", false),
        ] {
            assert_eq!(of_status(Status::new(code, message)).keeps_connection(), keeps, "{message}");
        }
    }

    #[test]
    fn a_request_that_a_busy_member_has_not_taken_in_may_be_made_again() {
        for (code, message, effect) in [
            (Code::Unknown, "etcdserver: too many requests", Effect::None),
            (Code::Unknown, "context deadline exceeded", Effect::Unknown),
            (Code::Unavailable, "etcdserver: request timed out", Effect::Unknown),
        ] {
            let failure = of_status(Status::new(code, message));
            assert_eq!((failure.kind, failure.effect), (FailureKind::Overloaded, effect), "{message}");
            assert!(is_turned_away(&failure), "a look goes to another member");
        }
        assert!(is_turned_away(&of_status(Status::new(Code::Unavailable, "etcdserver: no leader"))));
        assert!(!is_turned_away(&Failure::broken(Effect::None)));
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
            (Code::Unknown, "etcdserver: too many requests", ErrorKind::ConnectionLost, Advice::Transient),
            (Code::ResourceExhausted, "etcdserver: too many requests", ErrorKind::ConnectionLost, Advice::Transient),
            (
                Code::Unavailable,
                "etcdserver: request timed out, waiting for the applied index took too long",
                ErrorKind::ConnectionLost,
                Advice::Transient,
            ),
            (Code::Unknown, "context deadline exceeded", ErrorKind::ConnectionLost, Advice::Unknown),
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
        let failure = of_status(Status::from_error(Box::new(Gone)));
        assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::None));
        let failure = of_status(Status::from_error(Box::new(std::io::Error::other("reset"))));
        assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::Unknown));
    }
}
