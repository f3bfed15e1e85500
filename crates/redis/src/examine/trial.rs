//! Tries what locks need, without leaving anything.

use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Finding, Severity, Ticket};
use lockkeeper_session::{Clocks, FOR_TOKENS, Failure, FailureKind, judge_round_trip, late, median_round_trip};
use redis::{Cmd, Value, cmd};

use super::judge::{judge_layout, judge_token, not_tracked};
use crate::answers::{list, only, text};
use crate::connection::{Batch, Wake, answer};
use crate::queue::Onlooking;
use crate::session::Timing;
use crate::url::Site;

/// How long a change may take until it is told: it comes with the answer of the command that made it.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// After how many milliseconds the server removes what the trial has left because the connection ended.
const KEPT_MS: u32 = 10_000;

/// Sends one command, and returns its answer.
pub(super) async fn ask(looking: Onlooking<'_>, command: Cmd, name: &str) -> Result<Value, Failure> {
    let answers = looking.connection.send_until(Batch::new().command(command), looking.deadline).await?;
    answer(only(answers)?, name)
}

/// Writes a key, reads it with tracking, deletes it, and waits to be told.
pub(super) async fn try_tracking(looking: Onlooking<'_>, clock: &dyn Clock) -> Result<Option<Finding>, Failure> {
    let Onlooking { connection, layout, deadline } = looking;
    // No contender has this number.
    let ticket = Ticket::mint().map_err(|_| Failure::unexpected())?;
    let key = layout.contender(ticket);
    let mut write = cmd("SET");
    write.arg(&key).arg("examined").arg("PX").arg(KEPT_MS);
    match ask(looking, write, "SET").await {
        Ok(_) => {}
        Err(failure) if failure.kind == FailureKind::Full => {
            let what = format!("no contender can join; holders go on: {failure}");
            return Ok(Some(Finding::new(Severity::Error, what, "free some memory, or raise `maxmemory`")));
        }
        Err(failure) if matches!(failure.kind, FailureKind::TooFewReplicas | FailureKind::Refused) => {
            let what = format!("no lock can be had: {failure}");
            let cure = match failure.kind {
                FailureKind::Refused => "give this user the rights that the guide lists",
                _ => "start the replicas, or see why the master lost them",
            };
            return Ok(Some(Finding::new(Severity::Error, what, cure)));
        }
        Err(failure) => return Err(failure),
    }
    let told = connection.wait_for(key.as_bytes())?;
    let mut delete = cmd("DEL");
    delete.arg(&key);
    let batch = Batch::new().tracked_get(&told).command(delete);
    for (value, name) in connection.send_until(batch, deadline).await?.into_iter().zip(["GET", "DEL"]) {
        answer(value, name)?;
    }
    let told_by = clock.now().saturating_add(TOLD_WITHIN).min(deadline);
    tokio::select! {
        biased;
        wake = told => match wake {
            Wake::Changed => Ok(None),
            Wake::ConnectionOver => Err(Failure::broken(lockkeeper_session::Effect::None)),
        },
        () = late(clock, told_by) => Ok(Some(not_tracked())),
    }
}

/// Compares clocks, and the last token with the server's.
pub(super) async fn try_clock(looking: Onlooking<'_>, clock: &dyn Clock) -> Result<Vec<Finding>, Failure> {
    let Onlooking { connection, layout, deadline } = looking;
    let mut head = cmd("HMGET");
    head.arg(layout.base()).arg("tok").arg("lay");
    let before = clock.unix_time();
    let batch = Batch::new().command(cmd("TIME")).command(head);
    let answers = connection.send_until(batch, deadline).await?;
    let after = clock.unix_time();
    let [time, head] = <[Value; 2]>::try_from(answers).map_err(|_| Failure::unexpected())?;
    let server = server_time(answer(time, "TIME")?)?;
    let [token, version] = list(answer(head, "HMGET")?)?
        .into_iter()
        .map(|value| if value == Value::Nil { Ok(None) } else { text(value).map(Some) })
        .collect::<Result<Vec<_>, _>>()?
        .try_into()
        .map_err(|_| Failure::unexpected())?;
    let found = [
        Clocks { server, before, after }.judge("the server", FOR_TOKENS),
        judge_token(token.as_deref(), server),
        judge_layout(layout.base(), version.as_deref()),
    ];
    Ok(found.into_iter().flatten().collect())
}

/// Reads the answer to `TIME`: seconds and microseconds since 1970.
fn server_time(value: Value) -> Result<Duration, Failure> {
    let parts = list(value)?.into_iter().map(|part| text(part)?.parse().map_err(|_| Failure::unexpected()));
    match parts.collect::<Result<Vec<u64>, Failure>>()?[..] {
        [seconds, micros] => Ok(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros))),
        _ => Err(Failure::unexpected()),
    }
}

/// Measures requests, such as a renewal is one.
pub(super) async fn try_round_trips(looking: Onlooking<'_>, site: &Site) -> Result<Option<Finding>, Failure> {
    let median = median_round_trip(&*site.clock, Duration::MAX, || async {
        let mut read = cmd("HGET");
        read.arg(looking.layout.base()).arg("tok");
        ask(looking, read, "HGET").await.map(drop)
    });
    let interval = Timing { timeout: site.config.session_timeout() }.interval();
    Ok(judge_round_trip(interval, median.await?, "a session renews"))
}
