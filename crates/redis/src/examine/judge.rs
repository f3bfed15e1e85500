//! Judgements of what a server says of itself, in its answers to `INFO` and to `CONFIG GET`. Pure.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use lockkeeper_core::{Finding, Severity};

use crate::connection::{HelloReply, Version};

/// The first versions of Redis that do not crash when more is read with tracking than their table takes (redis #11814),
/// by their series: 6.2 and 7.0. Later series never did.
const WITHOUT_TRACKING_CRASH: [Version; 2] = [Version::new(6, 2, 11), Version::new(7, 0, 9)];

/// How far the last token may be ahead of the server's clock until it is told: as far as two clocks that are set by one
/// time server never are.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// The layout that this crate writes.
const LAYOUT: &str = "1";

pub(super) fn judge_version(HelloReply { software, version, .. }: &HelloReply) -> Option<Finding> {
    let [of_6, of_7] = WITHOUT_TRACKING_CRASH;
    let is_sound = software != "redis" || *version >= of_7 || (of_6..Version::new(7, 0, 0)).contains(version);
    (!is_sound).then(|| {
        let what = format!("Redis {version} can crash when clients have it track many keys (redis #11814)");
        Finding::new(Severity::Warning, what, format!("upgrade to {of_6}, {of_7} or later"))
    })
}

/// Judges what becomes of our keys when the memory is full.
pub(super) fn judge_eviction(report: &RedisReport) -> Option<Finding> {
    let policy = report.get("maxmemory_policy").filter(|policy| policy.starts_with("allkeys-"))?;
    if report.number("maxmemory") == Some(0) {
        let what = format!("`maxmemory-policy {policy}` would evict locks that are held, if `maxmemory` was set");
        return Some(Finding::new(Severity::Note, what, "set `maxmemory-policy noeviction` or `volatile-lru`"));
    }
    let what = format!("`maxmemory-policy {policy}` evicts locks that are held when the memory is full");
    Some(Finding::new(Severity::Error, what, "set `maxmemory-policy noeviction` or `volatile-lru`"))
}

/// Judges what happens to plain locks when the memory is full: they have a time to live, as no other key of ours has.
pub(super) fn judge_eviction_of_plain(report: &RedisReport) -> Option<Finding> {
    let policy = report.get("maxmemory_policy").filter(|policy| policy.starts_with("volatile-"))?;
    let what = format!("`maxmemory-policy {policy}` may evict the keys that `layout=setnx` shares with others");
    Some(Finding::new(Severity::Warning, what, "set `maxmemory-policy noeviction`"))
}

/// Judges what a restart forgets.
pub(super) fn judge_persistence(report: &RedisReport) -> Option<Finding> {
    let cure = "set `appendonly yes` and `appendfsync always`";
    let warning = |what: &str| Some(Finding::new(Severity::Warning, what, cure));
    if report.get("aof_enabled")? == "1" {
        if report.get("aof_last_write_status").is_some_and(|status| status != "ok") {
            let what = "the server cannot write its log: it refuses writes, and no lock can be had";
            return Some(Finding::new(Severity::Error, what, "see its own log, and make room on its disk"));
        }
        return match report.get("appendfsync") {
            Some("always") | None => None,
            Some("everysec") => {
                let what =
                    "a crash of the server's machine loses the grants of the last second (`appendfsync everysec`)";
                Some(Finding::new(Severity::Note, what, "set `appendfsync always` if that may not be"))
            }
            Some(_) => warning("a crash of the server's machine loses grants that the system has not written yet"),
        };
    }
    match report.get("save") {
        Some("") => warning("a restart of the server loses all grants: it keeps nothing on its disk"),
        _ => warning("a restart of the server loses the grants since its last snapshot: it keeps no log of its writes"),
    }
}

/// Judges what a failover may lose, and whether the master notices that it has none to follow it.
pub(super) fn judge_replication(report: &RedisReport, timeout: Duration) -> Vec<Finding> {
    let Some(replicas) = report.replicas() else {
        return Vec::new();
    };
    let asked_for = report.number("min-replicas-to-write");
    let lag_max_s = report.number("min-replicas-max-lag").unwrap_or(0);
    let mut findings = Vec::new();
    if replicas.is_empty() && asked_for.unwrap_or(0) == 0 {
        let what = "the server has no replica: while it is down, no lock can be had";
        let cure = "use sentinels or a cluster, with two replicas or more, if that may not be";
        return vec![Finding::new(Severity::Note, what, cure)];
    }
    let is_good = |replica: &&Replica| replica.is_online && (lag_max_s == 0 || replica.lag_s <= lag_max_s);
    let good = replicas.iter().filter(is_good).count();
    match asked_for {
        Some(0) => {
            let what = "a master that is cut off from its replicas goes on granting locks beside the promoted one \
                        (`min-replicas-to-write 0`)";
            let cure = "set `min-replicas-to-write 1` and `min-replicas-max-lag 10`, or with three replicas the usual \
                        pair 2 and 10";
            findings.push(Finding::new(Severity::Warning, what, cure));
        }
        Some(asked_for) if (good as u64) < asked_for => {
            let what = format!(
                "no lock can be had: {good} replicas are heard of, and `min-replicas-to-write` asks for {asked_for}"
            );
            findings.push(Finding::new(Severity::Error, what, "start the replicas, or see why the master lost them"));
        }
        Some(_) if Duration::from_secs(lag_max_s) > timeout => {
            let what = format!(
                "a master that is cut off goes on granting locks for {lag_max_s} s (`min-replicas-max-lag`), longer \
                 than a session's {timeout:?}"
            );
            findings.push(Finding::new(Severity::Note, what, "set a shorter `min-replicas-max-lag`; 10 is usual"));
        }
        Some(_) | None => {}
    }
    let behind = replicas.iter().filter(|replica| !replica.is_online).count();
    if behind > 0 {
        let what = format!("{behind} of {} replicas have not all data yet", replicas.len());
        findings.push(Finding::new(Severity::Note, what, "wait for them, or see the master's log"));
    }
    findings
}

/// Judges the token that was given last by the server's clock, in microseconds since 1970.
pub(super) fn judge_token(token: Option<&str>, server: Duration) -> Option<Finding> {
    let ahead = Duration::from_micros(token?.parse().ok()?).saturating_sub(server);
    (ahead > CLOCK_TOLERANCE).then(|| {
        let what =
            format!("the last token is {:.1} s ahead of the server's clock, which was set back", ahead.as_secs_f64());
        let cure = "nothing, while the service keeps its data; if they are lost before, tokens may come twice";
        Finding::new(Severity::Warning, what, cure)
    })
}

/// Judges the layout of what is stored below the base.
pub(super) fn judge_layout(base: &str, layout: Option<&str>) -> Option<Finding> {
    let layout = layout.filter(|&layout| layout != LAYOUT)?;
    let what = format!("what is stored below `{base}` has the layout `{layout}`, and this release writes `{LAYOUT}`");
    Some(Finding::new(Severity::Error, what, "use one release of Lockkeeper, or another `base`"))
}

/// Says that a user may not ask what an examination asks.
pub(super) fn not_told(command: &str, subject: &str, why: &str) -> Finding {
    let what = format!("{subject} are not known, since this user may not ask `{command}`: {why}");
    Finding::new(Severity::Note, what, "examine the service once as a user with +info +config|get")
}

/// Says that changes are not told.
pub(super) fn not_tracked() -> Finding {
    let what = "the server tells no changes of what is read: waiters learn of their turn only when they look again";
    Finding::new(Severity::Error, what, "connect to the server itself, not through a proxy")
}

/// What a server says of itself, by the names of its fields and settings.
#[derive(Clone, Debug, Default)]
pub(super) struct RedisReport(HashMap<String, String>);

/// A replica, as its master knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Replica {
    /// Whether it has all data and is sent each write.
    pub(super) is_online: bool,
    /// How many seconds ago it was heard of.
    pub(super) lag_s: u64,
}

impl RedisReport {
    pub(super) fn of_info(info: &str) -> Self {
        let field =
            |line: &str| line.trim_end().split_once(':').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self(info.lines().filter_map(field).collect())
    }

    pub(super) fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// The replicas of this server; `None` if it does not say how many there are.
    pub(super) fn replicas(&self) -> Option<Vec<Replica>> {
        let count = self.number("connected_slaves")?;
        let replicas = (0..count).map_while(|number| self.get(&format!("slave{number}")));
        Some(replicas.map(replica).collect())
    }
}

/// Reads `ip=10.0.0.7,port=6379,state=online,offset=84,lag=1`.
fn replica(text: &str) -> Replica {
    let field = |name: &str| text.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    Replica {
        is_online: field("state") == Some("online"),
        lag_s: field("lag").and_then(|lag| lag.parse().ok()).unwrap_or(0),
    }
}
