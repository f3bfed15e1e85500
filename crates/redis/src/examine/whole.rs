//! The whole examination, for an operator, and the brief one, which each process makes once.

use lockkeeper_core::Finding;
use lockkeeper_session::{Failure, FailureKind};
use redis::{Value, cmd};

use super::judge::{
    judge_eviction, judge_eviction_of_plain, judge_persistence, judge_replication, judge_version, not_told,
};
use super::report::Report;
use super::trial::{ask, try_clock, try_round_trips, try_tracking};
use crate::queue::Onlooking;
use crate::url::{Config, Naming, Site};

/// The settings that `INFO` does not tell.
const SETTINGS: [&str; 4] = ["appendfsync", "save", "min-replicas-to-write", "min-replicas-max-lag"];

/// Asks, once, what weakens locks. What this user may not ask is not told.
pub(crate) async fn examine_briefly(looking: Onlooking<'_>) -> Result<Vec<Finding>, Failure> {
    let version = judge_version(&looking.connection.greeting);
    let eviction = match info(looking).await {
        Ok(report) => judge_eviction(&report),
        Err(failure) if is_untold(&failure) => None,
        Err(failure) => return Err(failure),
    };
    Ok(version.into_iter().chain(eviction).collect())
}

/// Examines the server in full.
pub(crate) async fn examine_wholly(looking: Onlooking<'_>, site: &Site) -> Result<Vec<Finding>, Failure> {
    let mut findings: Vec<_> = judge_version(&looking.connection.greeting).into_iter().collect();
    findings.extend(judge_report(looking, &site.config).await?);
    findings.extend(try_clock(looking, &*site.clock).await?);
    findings.extend(try_tracking(looking, &*site.clock).await?);
    findings.extend(try_round_trips(looking, site).await?);
    Ok(findings)
}

/// Judges what the server says of itself, as far as this user may ask.
async fn judge_report(looking: Onlooking<'_>, config: &Config) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    let mut report = match info(looking).await {
        Ok(report) => report,
        Err(failure) if is_untold(&failure) => {
            findings.push(not_told("INFO", "memory, persistence and replicas", &failure.to_string()));
            Report::default()
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
    if config.naming == Naming::Setnx {
        findings.extend(judge_eviction_of_plain(&report));
    }
    findings.extend(judge_persistence(&report));
    findings.extend(judge_replication(&report, config.session_timeout()));
    Ok(findings)
}

async fn info(looking: Onlooking<'_>) -> Result<Report, Failure> {
    match ask(looking, cmd("INFO"), "INFO").await? {
        Value::BulkString(bytes) => Ok(Report::of_info(&String::from_utf8_lossy(&bytes))),
        Value::VerbatimString { text, .. } => Ok(Report::of_info(&text)),
        _ => Err(Failure::unexpected()),
    }
}

async fn read_settings(report: &mut Report, looking: Onlooking<'_>) -> Result<(), Failure> {
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

/// Whether the server does not tell it to this user, or to anyone.
fn is_untold(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Refused | FailureKind::Unsupported | FailureKind::Other)
}
