//! The meaning of a server's refusal for a caller of locks, by its number.

use lockkeeper_session::{Effect, Failure, FailureKind};
use mysql_async::{DriverError, Error, IoError, ServerError};

/// Whether a statement was given up for another transaction's sake and may be asked again: it took no effect.
pub(super) fn is_given_up(error: &Error) -> bool {
    matches!(error, Error::Server(ServerError { code: 1213, .. }))
}

/// Whether the connection is of no use after it.
pub(super) fn is_last(error: &Error) -> bool {
    match error {
        Error::Server(said) => kind_of(said.code) == FailureKind::Broken,
        _ => true,
    }
}

/// Judges why a statement failed. `grants` are the statements that give the user its rights.
pub(super) fn of_statement(error: Error, grants: &str) -> Failure {
    let Error::Server(said) = &error else {
        return of_transport(error, Effect::Unknown);
    };
    let (kind, effect) = match kind_of(said.code) {
        // What a connection tells last may come after a commit.
        FailureKind::Broken => (FailureKind::Broken, Effect::Unknown),
        // The schema was removed under us: over the next connection it is recreated, or the cause is told.
        FailureKind::Unsupported => (FailureKind::Broken, Effect::None),
        kind => (kind, Effect::None),
    };
    let hint = match kind {
        FailureKind::Refused => format!("; an administrator gives this user its rights by: {grants}"),
        FailureKind::Busy => "; if that goes on, another transaction holds rows of our tables".to_owned(),
        _ => String::new(),
    };
    Failure::new(kind, effect, told(said)).with_hint(&hint)
}

/// Judges why there was no greeting.
pub(super) fn of_greeting(error: Error) -> Failure {
    let Error::Server(said) = &error else {
        return of_transport(error, Effect::None);
    };
    let kind = match kind_of(said.code) {
        // It may pass; a server that is lost is told by the socket.
        FailureKind::Broken => FailureKind::Unavailable,
        kind => kind,
    };
    Failure::new(kind, Effect::None, told(said))
}

/// Judges the failures of this end: the connection has ended, or what came over it is no answer.
fn of_transport(error: Error, effect: Effect) -> Failure {
    match &error {
        Error::Io(IoError::Io(source)) => {
            let is_garbage = matches!(source.kind(), std::io::ErrorKind::InvalidData);
            let kind = if is_garbage { FailureKind::Protocol } else { FailureKind::Broken };
            let message = match (is_garbage, effect) {
                (true, _) => "the server does not speak as MySQL does",
                (false, Effect::None) => "cannot be reached",
                (false, Effect::Unknown) => "the connection ended before there was an answer",
            };
            Failure::new(kind, effect, message).caused_by(error)
        }
        Error::Driver(DriverError::ConnectionClosed) => Failure::broken(effect).caused_by(error),
        Error::Driver(
            DriverError::UnknownAuthPlugin { .. }
            | DriverError::MysqlOldPasswordDisabled
            | DriverError::CleartextPluginDisabled,
        ) => {
            let message = "the server asks for a proof of the user that we cannot give";
            Failure::new(FailureKind::Unsupported, effect, message).caused_by(error)
        }
        Error::Driver(DriverError::PacketTooLarge) => {
            Failure::new(FailureKind::Limit, Effect::None, "the request is longer than the server takes")
                .caused_by(error)
        }
        _ => Failure::new(FailureKind::Protocol, effect, "the server does not speak as MySQL does").caused_by(error),
    }
}

/// What kind of failure a refusal with this number is.
fn kind_of(code: u16) -> FailureKind {
    match code {
        // A deadlock, a lock that was waited for too long or not at all.
        1205 | 1213 | 3572 => FailureKind::Busy,
        // No such user or wrong password, no right to the database, to a table, to a column, to more, to a procedure.
        1044 | 1045 | 1130 | 1142 | 1143 | 1227 | 1370 | 1410 | 1698 | 3118 | 3159 | 4151 => FailureKind::Refused,
        // `read_only`, a transaction that only reads, InnoDB that only reads.
        1290 | 1792 | 1836 | 3100 => FailureKind::ReadOnly,
        // No room on the disk or in memory.
        3 | 1021 | 1026 | 1030 | 1037 | 1038 | 1041 | 1114 => FailureKind::Full,
        // Longer than `max_allowed_packet`.
        1153 => FailureKind::Limit,
        // Too many connections or another limit, a blocked host, a server that ends, a node without its cluster.
        1040 | 1047 | 1129 | 1203 | 1226 | 3032 => FailureKind::Unavailable,
        // The server ends, or has ended the connection.
        1053 | 1927 | 3169 | 4031 => FailureKind::Broken,
        // A statement that was ended, also while it sorted, or took too long; a commit that failed. Between two
        // instructions of a procedure no handler runs, also not for the end of a cursor (1329): its transaction may be
        // open, with rows locked, or committed; 1568 says that one is open. With the connection it ends.
        1028 | 1180 | 1317 | 1329 | 1568 | 1969 | 3024 => FailureKind::Broken,
        // No such database, table or procedure.
        1049 | 1146 | 1305 => FailureKind::Unsupported,
        _ => FailureKind::Other,
    }
}

/// `Lock wait timeout exceeded; try restarting transaction (error 1205)`, in one line.
fn told(said: &ServerError) -> String {
    let message = said.message.lines().next().unwrap_or_default();
    format!("{message} (error {})", said.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        for (code, kind, is_passing) in [
            (1205, FailureKind::Busy, true),
            (1290, FailureKind::ReadOnly, true),
            (1040, FailureKind::Unavailable, true),
            (1927, FailureKind::Broken, true),
            (1317, FailureKind::Broken, true),
            (1329, FailureKind::Broken, true),
            (1969, FailureKind::Broken, true),
            (1568, FailureKind::Broken, true),
            (1114, FailureKind::Full, false),
            (1370, FailureKind::Refused, false),
            (1064, FailureKind::Other, false),
        ] {
            let error = Error::Server(ServerError { code, message: "why\nnot".to_owned(), state: String::new() });
            let failure = of_statement(error, "GRANT");
            assert_eq!((failure.kind, failure.is_passing()), (kind, is_passing), "{code}");
            assert!(failure.to_string().starts_with(&format!("why (error {code})")), "{failure}");
        }
    }
}
