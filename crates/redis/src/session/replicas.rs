//! Waits for copies: where the URL asks for it, so many replicas must have what a session or a contender stands on.
//!
//! Replication is asynchronous. This narrows the time in which a promotion can lose a grant, and does not end it: a
//! replica that has not heard of it may be promoted all the same.

use redis::{Value, cmd};

use crate::answers::number;
use crate::connection::{Effect, Failure, FailureKind, Flight, answer};
use crate::url::Config;

/// How long the copies may take, in milliseconds: more than the round trip to any replica that is of use.
const WAIT_MS: u32 = 1_000;

/// Waits for the copies of what was sent before.
pub(crate) fn copied(flight: Flight, config: &Config) -> Flight {
    if config.replicas == 0 {
        return flight;
    }
    let mut wait = cmd("WAIT");
    wait.arg(config.replicas).arg(WAIT_MS);
    flight.command(wait)
}

/// Reads from the answers whether there are enough copies.
pub(crate) fn check(config: &Config, answers: &mut impl Iterator<Item = Value>) -> Result<(), Failure> {
    let wanted = config.replicas;
    if wanted == 0 {
        return Ok(());
    }
    let waited = answer(answers.next().ok_or_else(Failure::unexpected)?, "WAIT")?;
    let count = number(&waited)?;
    if count >= u64::from(wanted) {
        return Ok(());
    }
    let message = format!("{count} of the {wanted} replicas that `replicas` asks for have it after {WAIT_MS} ms");
    Err(Failure::new(FailureKind::TooFewReplicas, Effect::None, message))
}
