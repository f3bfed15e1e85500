//! The meaning of a server's refusal for a caller of locks, by its SQLSTATE.

use lockkeeper_session::{Effect, Failure, FailureKind, GIVE_CREDENTIALS};

use crate::postgres::pool::PoolError;

/// What our functions raise where transactions are not READ COMMITTED.
const ISOLATION: &str = "LK001";

/// Whether a statement was given up for another transaction's sake and may be asked again: it took no effect.
pub(super) fn is_given_up(error: &PoolError) -> bool {
    matches!(error, PoolError::Refused { code, .. } if matches!(code.as_str(), "40001" | "40P01"))
}

/// Whether it is not known what became of a statement. The last words of a connection may come after a commit.
pub(super) fn is_unanswered(error: &PoolError) -> bool {
    matches!(error, PoolError::Broken(_) | PoolError::Refused { is_last: true, .. })
}

/// Judges why a statement failed. `grants` are the statements that give the role its rights.
pub(super) fn of_statement(error: PoolError, grants: &str) -> Failure {
    let (code, message, is_last) = match error {
        PoolError::Refused { code, message, is_last } => (code, message, is_last),
        error => return of_transport(error, Effect::Unknown),
    };
    let effect = if is_last || code == "40003" { Effect::Unknown } else { Effect::None };
    let kind = if is_last { FailureKind::Broken } else { kind_of(&code) };
    let hint = match kind {
        FailureKind::Refused => format!("; an administrator gives this role its rights by: {grants}"),
        FailureKind::Busy => "; if that goes on, another transaction holds rows of our tables".to_owned(),
        FailureKind::Unsupported => "; `lockkeeper setup` brings the schema up to date".to_owned(),
        _ => String::new(),
    };
    Failure::new(kind, effect, told(&code, &message)).with_hint(&hint)
}

/// Judges why there was no greeting.
pub(super) fn of_greeting(error: PoolError) -> Failure {
    let (code, message) = match error {
        PoolError::Refused { code, message, .. } => (code, message),
        error => return of_transport(error, Effect::None),
    };
    let kind = match code.as_str() {
        // No entry of pg_hba.conf, an unknown user, a wrong password.
        code if code.starts_with("28") => FailureKind::Refused,
        // The database is not there.
        "3D000" => FailureKind::Settings,
        // What a pooler cannot do for us it tells as an error of the protocol.
        code if code.starts_with("08") => FailureKind::Unavailable,
        code => kind_of(code),
    };
    // It says so only where another entry could have let us in.
    let hint = if message.contains("no encryption") { "; with TLS the URL begins with `postgres+tls:`" } else { "" };
    Failure::new(kind, Effect::None, told(&code, &message)).with_hint(hint)
}

/// Judges the failures of this end: there is no connection, it has ended, or what came over it is no answer.
fn of_transport(error: PoolError, effect: Effect) -> Failure {
    let error = match error {
        PoolError::NoConnection(error) => return Failure::unreachable("the pool gave no connection", error),
        PoolError::Broken(error) => error,
        PoolError::Refused { .. } => unreachable!("the server has answered"),
    };
    let is_of_driver = error.is::<tokio_postgres::Error>();
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    let is_garbage = |source: &std::io::Error| {
        matches!(source.kind(), std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidData)
    };
    let text = if is_of_driver { error.to_string() } else { String::new() };
    if source.is_some_and(is_garbage) || text.starts_with("unexpected message") || text.starts_with("error parsing") {
        return Failure::new(FailureKind::Protocol, effect, "the server does not speak as PostgreSQL does")
            .caused_by(error);
    }
    if text.starts_with("authentication error") {
        return Failure::new(FailureKind::Unsupported, effect, "the server asks for a proof that we cannot give")
            .caused_by(error);
    }
    if text.starts_with("invalid configuration") {
        // There is only one thing that it can lack.
        return Failure::new(FailureKind::Refused, effect, "the server asks for a password")
            .with_hint(GIVE_CREDENTIALS);
    }
    if text.starts_with("error serializing") || text.starts_with("error encoding") {
        return Failure::new(FailureKind::Other, Effect::None, "the request cannot be sent").caused_by(error);
    }
    Failure::broken(effect).caused_by(error)
}

/// What kind of failure a refusal with this SQLSTATE is.
fn kind_of(code: &str) -> FailureKind {
    match code {
        // A deadlock or a conflict, a lock that was waited for too long, a statement that took too long.
        "40001" | "40P01" | "55P03" | "57014" => FailureKind::Busy,
        "42501" => FailureKind::Refused,
        "25006" => FailureKind::ReadOnly,
        // The disk or the memory is full.
        "53100" | "53200" => FailureKind::Full,
        // Too many connections or another limit; it starts or ends.
        "53000" | "53300" | "53400" | "57P01" | "57P02" | "57P03" => FailureKind::Unavailable,
        ISOLATION => FailureKind::Settings,
        // No such function, table, schema or feature.
        "42883" | "42P01" | "3F000" | "0A000" => FailureKind::Unsupported,
        code if code.starts_with("08") => FailureKind::Broken,
        _ => FailureKind::Other,
    }
}

/// `canceling statement due to lock timeout (SQLSTATE 55P03)`, in one line.
fn told(code: &str, message: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    format!("{message} (SQLSTATE {code})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        for (code, kind, is_passing) in [
            ("40P01", FailureKind::Busy, true),
            ("57014", FailureKind::Busy, true),
            ("25006", FailureKind::ReadOnly, true),
            ("53300", FailureKind::Unavailable, true),
            ("08P01", FailureKind::Broken, true),
            ("53100", FailureKind::Full, false),
            ("42501", FailureKind::Refused, false),
            ("42883", FailureKind::Unsupported, false),
            ("LK001", FailureKind::Settings, false),
            ("XX000", FailureKind::Other, false),
        ] {
            let failure = Failure::new(kind_of(code), Effect::None, code);
            assert_eq!((failure.kind, failure.is_passing()), (kind, is_passing), "{code}");
        }
    }
}
