//! Judgements of a server: what it says of itself, the answer to `examine`; what else was seen of it; and what matters
//! on both kinds of database. Pure.

#[cfg(feature = "mysql")]
pub(super) mod mysql;
#[cfg(feature = "postgres")]
pub(super) mod postgres;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use lockkeeper_core::{Finding, Severity};
use lockkeeper_session::{Clocks, Failure};

use crate::engine::WakeMethod;
use crate::statement::{AnswerRow, RowKind, word};
use crate::url::{Config, Dialect};

/// One in so many of the server's connections should be free: a process that waits may need a second one.
const CONNECTIONS_FREE_ONE_IN: u64 = 10;

/// How old a transaction may be that may hold rows of ours: a join waits for two seconds at most.
const ON_OURS_MAX_S: u64 = 10;

/// How old any other may be: the dead rows of that time slow all joins down.
pub(crate) const TRANSACTION_MAX_S: u64 = 300;

/// How many characters of a name are shown that another program has chosen.
const NAME_CHARACTERS_MAX: usize = 60;

/// What a server says of itself, by the names of its facts.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerReport(HashMap<String, String>);

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct LongTransaction {
    pub(super) age_s: u64,
    /// The process or thread of the server that executes it.
    pub(super) process: u64,
    /// What its client calls itself; may be empty.
    pub(super) client: String,
}

impl ServerReport {
    pub(super) fn of(rows: &[AnswerRow]) -> Result<Self, Failure> {
        if word(rows)? != "ok" {
            return Err(Failure::unexpected());
        }
        let facts = rows.iter().filter(|row| row.says(RowKind::Fact));
        Ok(Self(facts.filter_map(|row| Some((row.text.clone()?, row.ask.clone()?))).collect()))
    }

    #[cfg(test)]
    pub(super) fn with(facts: &[(&str, &str)]) -> Self {
        Self(facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A fact in one line of some words, whichever program has made it.
    pub(super) fn words(&self, name: &str) -> String {
        short(self.get(name).unwrap_or("unknown"))
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| matches!(value.to_uppercase().as_str(), "ON" | "1" | "YES" | "TRUE"))
    }

    /// Whether a setting is known, and off.
    pub(super) fn is_off(&self, name: &str) -> bool {
        self.get(name).is_some() && !self.is_on(name)
    }

    /// Reads `75 4711 psql`.
    pub(super) fn transaction(&self, name: &str) -> Option<LongTransaction> {
        let mut words = self.get(name)?.splitn(3, ' ');
        let (age_s, process) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(LongTransaction { age_s, process, client: short(words.next().unwrap_or_default()) })
    }
}

fn short(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(NAME_CHARACTERS_MAX).collect()
}

pub(crate) struct Examined<'a> {
    pub(crate) config: &'a Config,
    pub(crate) wake_method: WakeMethod,
    pub(crate) clocks: Option<Clocks>,
    /// What half of the requests took at most.
    pub(crate) median: Duration,
    pub(crate) report: &'a ServerReport,
}

/// `the schema `lockkeeper` has version 2; …`, with what no client can notice.
pub(crate) fn state(seen: &Examined<'_>) -> String {
    let (schema, version) = (&seen.config.schema, seen.report.words("schema_version"));
    let instance = seen.report.words("instance");
    let timeout_max = seen.report.number("timeout_max_ms").map(Duration::from_millis).unwrap_or_default();
    let median_ms = seen.median.as_secs_f64() * 1_000.0;
    format!(
        "the schema `{schema}` has version {version}; the state of the data is {instance}; a session lasts \
         {timeout_max:?} at most; a request takes {median_ms:.1} ms; after putting back data that look complete, as a \
         cold copy, run `lockkeeper doctor --after-restore`"
    )
}

/// Judges the version of the schema by ours.
pub(crate) fn judge_schema(report: &ServerReport, ours: i64) -> Option<Finding> {
    let version: i64 = report.get("schema_version")?.parse().ok()?;
    match version.cmp(&ours) {
        Ordering::Equal => None,
        Ordering::Less => {
            let what = format!("the schema has version {version}, which is older than this program's, {ours}");
            Some(Finding::new(Severity::Warning, what, "run `lockkeeper setup` of this version"))
        }
        Ordering::Greater => {
            let what = format!("the schema has version {version}, which is newer than this program's, {ours}");
            Some(Finding::new(Severity::Note, what, "nothing: both versions work side by side"))
        }
    }
}

/// Judges whether locks are granted in this state of the data.
pub(crate) fn judge_settled(report: &ServerReport) -> Option<Finding> {
    // Before the first client there is nothing to wait for.
    if !report.is_off("is_settled") || report.get("instance").is_none() {
        return None;
    }
    let pause = report.number("timeout_max_ms").map(Duration::from_millis).unwrap_or_default();
    let what = format!(
        "the server serves another state of the data than before (a promotion, a restore, or another start): no lock \
         is granted until a client has waited, for {pause:?} at most"
    );
    Some(Finding::new(Severity::Warning, what, "wait; see why the server was replaced if that was not meant"))
}

/// Judges how waiters learn of their turn.
pub(crate) fn judge_waking(config: &Config, wake_method: WakeMethod) -> Option<Finding> {
    if wake_method != WakeMethod::Polled {
        return None;
    }
    if config.only_looks {
        let what = "waiters look whether it is their turn, as `wake=look` says; the first one every 50 ms";
        return Some(Finding::new(Severity::Note, what, "leave `wake` out"));
    }
    let what = match config.dialect {
        Dialect::Mysql if config.is_only_node => "a node of Galera tells nothing of the other nodes",
        _ => "a pooler or a proxy stands between, which tells nothing",
    };
    let what = format!("waiters look whether it is their turn, the first one every 50 ms: {what}");
    Some(Finding::new(Severity::Note, what, "connect to the server itself, if waiters should be told"))
}

/// Judges how many connections are left.
pub(crate) fn judge_connections(used: Option<u64>, most: Option<u64>) -> Option<Finding> {
    let (used, most) = (used?, most?);
    let left = most.saturating_sub(used);
    (left * CONNECTIONS_FREE_ONE_IN < most).then(|| {
        let what = format!("{left} of the server's {most} connections are left: more clients of locks may be refused");
        Finding::new(Severity::Warning, what, "raise `max_connections`, or see which programs have so many")
    })
}

/// Judges a transaction of another program that has locked a table of ours.
pub(crate) fn judge_on_ours(transaction: Option<LongTransaction>) -> Option<Finding> {
    let transaction = transaction.filter(|transaction| transaction.age_s >= ON_OURS_MAX_S)?;
    let what = format!(
        "{} has used our tables for {} s: joins wait for the rows that it holds, and fail",
        by(&transaction),
        transaction.age_s
    );
    Some(Finding::new(Severity::Warning, what, "end that transaction"))
}

/// Judges the oldest of the others.
pub(crate) fn judge_oldest(transaction: Option<LongTransaction>) -> Option<Finding> {
    let transaction = transaction.filter(|transaction| transaction.age_s >= TRANSACTION_MAX_S)?;
    let what = format!(
        "{} goes on for {} s: dead rows of our tables are kept for it, which slows all joins down",
        by(&transaction),
        transaction.age_s
    );
    Some(Finding::new(Severity::Warning, what, "end that transaction, and keep others short"))
}

/// `the transaction of process 4711 (psql)`; one that is prepared belongs to none.
fn by(transaction: &LongTransaction) -> String {
    if transaction.process == 0 {
        return "a prepared transaction".to_owned();
    }
    let client = if transaction.client.is_empty() { String::new() } else { format!(" ({})", transaction.client) };
    format!("the transaction of process {}{client}", transaction.process)
}

/// Judges whether anything follows the server.
pub(crate) fn judge_alone(followers: Option<u64>) -> Option<Finding> {
    let what = "the server has no standby: while it is down, no lock can be had";
    let cure = "add a standby that commits wait for, if that may not be";
    (followers? == 0).then(|| Finding::new(Severity::Note, what, cure))
}
