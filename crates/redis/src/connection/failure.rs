//! What a failure of this end of a connection means.

use lockkeeper_session::{Effect, Failure, FailureKind};
use redis::RedisError;

/// Judges a failure of this end: the connection has ended, or what came over it is no answer.
pub(super) fn of_transport(error: RedisError, effect: Effect) -> Failure {
    let failure = match error.kind() {
        redis::ErrorKind::Parse => {
            Failure::new(FailureKind::Protocol, effect, "the server does not speak as Redis does")
        }
        _ => Failure::broken(effect),
    };
    failure.caused_by(error)
}
