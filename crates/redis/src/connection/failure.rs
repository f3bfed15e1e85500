//! The meaning of a failure of this end of a connection.

use lockkeeper_session::{Effect, Failure, FailureKind};
use redis::RedisError;

/// What is told of credentials that the server refuses.
pub(super) const WRONG_PASSWORD: &str = "the password is wrong, or the server does not know the user";

/// Judges a failure of this end: the connection has ended, or what came over it is no answer.
pub(super) fn of_transport(error: RedisError, effect: Effect) -> Failure {
    let failure = match error.kind() {
        redis::ErrorKind::Parse => {
            Failure::new(FailureKind::Protocol, effect, "the server does not speak as Redis does")
        }
        // The crate `redis` has thrown away what the server said.
        redis::ErrorKind::AuthenticationFailed => {
            return Failure::new(FailureKind::Refused, Effect::None, WRONG_PASSWORD);
        }
        _ => Failure::broken(effect),
    };
    failure.caused_by(error)
}
