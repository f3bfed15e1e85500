//! Examination of the service: findings that its users should know, and trials of what locks need. `judge` has the
//! rules, pure.

mod judge;

use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Finding, Severity, Ticket};
use lockkeeper_session::{Clocks, FOR_TOKENS, Failure, FailureKind, judge_round_trip, late, median_round_trip};
use redis::{Cmd, Value, cmd};

use crate::connection::{Batch, KeyWake, answer, list, only, text};
use crate::examine::judge::{
    RedisReport, judge_eviction, judge_eviction_of_plain, judge_layout, judge_persistence, judge_replication,
    judge_token, judge_version, not_told, not_tracked,
};
use crate::look::RedisLook;
use crate::script::KeyScheme;
use crate::url::{Config, RedisSite};

/// The settings that `INFO` does not report.
const SETTINGS: [&str; 4] = ["appendfsync", "save", "min-replicas-to-write", "min-replicas-max-lag"];

/// Asks once for what weakens locks, as far as this user may ask.
pub(crate) async fn examine_briefly(looking: RedisLook<'_>) -> Result<Vec<Finding>, Failure> {
    let version = judge_version(&looking.connection.greeting);
    let eviction = match info(looking).await {
        Ok(report) => judge_eviction(&report),
        Err(failure) if is_untold(&failure) => None,
        Err(failure) => return Err(failure),
    };
    Ok(version.into_iter().chain(eviction).collect())
}

pub(crate) async fn examine_wholly(looking: RedisLook<'_>, site: &RedisSite) -> Result<Vec<Finding>, Failure> {
    let mut findings: Vec<_> = judge_version(&looking.connection.greeting).into_iter().collect();
    findings.extend(judge_report(looking, &site.config).await?);
    findings.extend(try_clock(looking, &*site.clock).await?);
    findings.extend(try_tracking(looking, &*site.clock).await?);
    findings.extend(try_round_trips(looking, site).await?);
    Ok(findings)
}

/// Judges the server's reports, as far as this user may ask.
async fn judge_report(looking: RedisLook<'_>, config: &Config) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    let mut report = match info(looking).await {
        Ok(report) => report,
        Err(failure) if is_untold(&failure) => {
            findings.push(not_told("INFO", "memory, persistence and replicas", &failure.to_string()));
            RedisReport::default()
        }
        Err(failure) => return Err(failure),
    };
    if let Err(failure) = read_settings(&mut report, looking).await {
        if !is_untold(&failure) {
            return Err(failure);
        }
        let subject = "`appendfsync` and `min-replicas-to-write`";
        findings.push(not_told("CONFIG GET", subject, &failure.to_string()));
    }
    findings.extend(judge_eviction(&report));
    if config.naming == KeyScheme::Setnx {
        findings.extend(judge_eviction_of_plain(&report));
    }
    findings.extend(judge_persistence(&report));
    findings.extend(judge_replication(&report, config.session_timeout()));
    Ok(findings)
}

async fn info(looking: RedisLook<'_>) -> Result<RedisReport, Failure> {
    match ask(looking, cmd("INFO"), "INFO").await? {
        Value::BulkString(bytes) => Ok(RedisReport::of_info(&String::from_utf8_lossy(&bytes))),
        Value::VerbatimString { text, .. } => Ok(RedisReport::of_info(&text)),
        _ => Err(Failure::unexpected()),
    }
}

async fn read_settings(report: &mut RedisReport, looking: RedisLook<'_>) -> Result<(), Failure> {
    for name in SETTINGS {
        let mut question = cmd("CONFIG");
        question.arg("GET").arg(name);
        let told = ask(looking, question, "CONFIG GET").await?;
        let told: Vec<(String, String)> = redis::from_redis_value(told).map_err(|_| Failure::unexpected())?;
        if let Some((_, value)) = told.into_iter().find(|(told, _)| told == name) {
            report.set(name, value);
        }
    }
    Ok(())
}

/// Whether the server refuses this question to this user, or to all users.
fn is_untold(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Refused | FailureKind::Unsupported | FailureKind::Other)
}

/// The time in which a change must be reported: it comes with the answer of the command that made it.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// After how many milliseconds the server removes what the trial has left because the connection ended.
const KEPT_MS: u32 = 10_000;

async fn ask(looking: RedisLook<'_>, command: Cmd, name: &str) -> Result<Value, Failure> {
    let answers = looking.connection.send_until(Batch::new().command(command), looking.deadline).await?;
    answer(only(answers)?, name)
}

/// Writes a key, reads it with tracking, deletes it, and waits for the notification.
async fn try_tracking(looking: RedisLook<'_>, clock: &dyn Clock) -> Result<Option<Finding>, Failure> {
    let RedisLook { connection, layout, deadline } = looking;
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
    let batch = Batch::new().tracked("GET", told.key()).command(delete);
    for (value, name) in connection.send_until(batch, deadline).await?.into_iter().zip(["GET", "DEL"]) {
        answer(value, name)?;
    }
    let told_by = clock.now().saturating_add(TOLD_WITHIN).min(deadline);
    tokio::select! {
        biased;
        wake = told => match wake {
            KeyWake::Changed => Ok(None),
            KeyWake::ConnectionOver => Err(Failure::broken(lockkeeper_session::Effect::None)),
        },
        () = late(clock, told_by) => Ok(Some(not_tracked())),
    }
}

/// Compares clocks, and the last token with the server's.
async fn try_clock(looking: RedisLook<'_>, clock: &dyn Clock) -> Result<Vec<Finding>, Failure> {
    let RedisLook { connection, layout, deadline } = looking;
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
async fn try_round_trips(looking: RedisLook<'_>, site: &RedisSite) -> Result<Option<Finding>, Failure> {
    let median = median_round_trip(&*site.clock, Duration::MAX, || async {
        let mut read = cmd("HGET");
        read.arg(looking.layout.base()).arg("tok");
        ask(looking, read, "HGET").await.map(drop)
    });
    Ok(judge_round_trip(site.config.session_timeout(), median.await?, "a session renews"))
}
