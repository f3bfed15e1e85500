//! The whole examination, for an operator, and the brief one, which each process makes once.

use std::sync::Arc;

use lockkeeper_core::Finding;
use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{Failure, FailureKind};
use redis::{Value, cmd};

use super::judge::{
    judge_eviction, judge_eviction_of_plain, judge_persistence, judge_replication, judge_version, not_told,
};
use super::report::Report;
use super::trial::{ask, try_clock, try_round_trips, try_tracking};
use crate::connection::Connection;
use crate::url::{Config, Naming};

/// The settings that `INFO` does not tell.
const SETTINGS: [&str; 4] = ["appendfsync", "save", "min-replicas-to-write", "min-replicas-max-lag"];

/// What an examination needs beside a connection.
#[derive(Clone)]
pub(crate) struct Examination {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Asks, once, what weakens locks. What this user may not ask is not told.
pub(crate) async fn examine_briefly(connection: &Connection, deadline: BootInstant) -> Result<Vec<Finding>, Failure> {
    let version = judge_version(&connection.greeting.software, connection.greeting.version);
    let eviction = match info(connection, deadline).await {
        Ok(report) => judge_eviction(&report),
        Err(failure) if is_untold(&failure) => None,
        Err(failure) => return Err(failure),
    };
    Ok(version.into_iter().chain(eviction).collect())
}

/// Examines the server in full.
pub(crate) async fn examine_wholly(
    examination: &Examination,
    connection: &Connection,
    deadline: BootInstant,
) -> Result<Vec<Finding>, Failure> {
    let Examination { config, clock } = examination;
    let mut findings: Vec<_> =
        judge_version(&connection.greeting.software, connection.greeting.version).into_iter().collect();
    findings.extend(judge_report(config, connection, deadline).await?);
    findings.extend(try_clock(connection, &**clock, config, deadline).await?);
    findings.extend(try_tracking(connection, &**clock, config, deadline).await?);
    findings.extend(try_round_trips(connection, &**clock, config, deadline).await?);
    Ok(findings)
}

/// Judges what the server says of itself, as far as this user may ask.
async fn judge_report(
    config: &Config,
    connection: &Connection,
    deadline: BootInstant,
) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    let mut report = match info(connection, deadline).await {
        Ok(report) => report,
        Err(failure) if is_untold(&failure) => {
            findings.push(not_told("INFO", "memory, persistence and replicas", &failure.to_string()));
            Report::default()
        }
        Err(failure) => return Err(failure),
    };
    if let Err(failure) = read_settings(&mut report, connection, deadline).await {
        if !is_untold(&failure) {
            return Err(failure);
        }
        let subject = "`appendfsync` and `min-replicas-to-write`";
        findings.push(not_told("CONFIG GET", subject, &failure.to_string()));
    }
    findings.extend(judge_eviction(&report));
    if config.naming == Naming::Setnx {
        findings.extend(judge_eviction_of_plain(&report));
    }
    findings.extend(judge_persistence(&report));
    findings.extend(judge_replication(&report, config.session_timeout()));
    Ok(findings)
}

async fn info(connection: &Connection, deadline: BootInstant) -> Result<Report, Failure> {
    match ask(connection, cmd("INFO"), "INFO", deadline).await? {
        Value::BulkString(bytes) => Ok(Report::of_info(&String::from_utf8_lossy(&bytes))),
        Value::VerbatimString { text, .. } => Ok(Report::of_info(&text)),
        _ => Err(Failure::unexpected()),
    }
}

async fn read_settings(report: &mut Report, connection: &Connection, deadline: BootInstant) -> Result<(), Failure> {
    for name in SETTINGS {
        let mut question = cmd("CONFIG");
        question.arg("GET").arg(name);
        let told = ask(connection, question, "CONFIG GET", deadline).await?;
        let told: Vec<(String, String)> = redis::from_redis_value(told).map_err(|_| Failure::unexpected())?;
        if let Some((_, value)) = told.into_iter().find(|(told, _)| told == name) {
            report.set(name, value);
        }
    }
    Ok(())
}

/// Whether the server does not tell it to this user, or to anyone.
fn is_untold(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Refused | FailureKind::Unsupported | FailureKind::Other)
}
