//! Waits for copies: where the URL asks for it, so many replicas must have what a session or a contender stands on.
//!
//! Replication is asynchronous. This narrows the time in which a promotion can lose a grant, and does not end it: a
//! replica that has not heard of it may be promoted all the same.

use lockkeeper_session::{Effect, Failure, FailureKind};
use std::time::Duration;

use redis::{Value, cmd};

use crate::answers::number;
use crate::connection::{Batch, answer};
use crate::url::Config;

/// How long the copies may take: more than the round trip to any replica that is of use …
const WAIT_MAX: Duration = Duration::from_secs(1);

/// … and at most this part of the session timeout, so that the connection is not given up meanwhile.
const WAIT_DIVISOR: u32 = 10;

fn wait(config: &Config) -> Duration {
    (config.session_timeout() / WAIT_DIVISOR).min(WAIT_MAX)
}

/// Waits for the copies of what was sent before.
pub(crate) fn copied(batch: Batch, config: &Config) -> Batch {
    if config.replicas == 0 {
        return batch;
    }
    let mut copies = cmd("WAIT");
    copies.arg(config.replicas).arg(wait(config).as_millis().to_string());
    batch.command(copies)
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
    let message = format!("{count} of the {wanted} replicas that `replicas` asks for have it after {:?}", wait(config));
    Err(Failure::new(FailureKind::TooFewReplicas, Effect::None, message))
}
