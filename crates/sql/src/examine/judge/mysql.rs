//! Judgements for MariaDB and MySQL alone.

use lockkeeper_core::{Finding, Severity};

use crate::examine::judge::{
    Examined, ServerReport, judge_alone, judge_connections, judge_oldest, judge_schema, state,
};
use crate::schema::VERSION;

/// How many versions of rows may wait until they are removed. A server in order has thousands.
const HISTORY_MAX: u64 = 1_000_000;

pub(crate) fn judge(seen: &Examined<'_>) -> Vec<Finding> {
    let report = seen.report;
    let found = [
        Some(about(seen)),
        judge_kind(report),
        judge_schema(report, VERSION),
        judge_visible(report),
        judge_cluster(report),
        judge_reading(report),
        judge_flushing(report),
        judge_log(report),
        judge_replicas(report),
        judge_connections(report.number("threads_connected"), report.number("max_connections")),
        judge_oldest(report.transaction("oldest")),
        judge_history(report),
    ];
    found.into_iter().flatten().collect()
}

fn about(seen: &Examined<'_>) -> Finding {
    let version = seen.report.words("version");
    let name = if is_mariadb(seen.report) { "MariaDB" } else { "MySQL" };
    Finding::note(format!("{name} {version}; {}", state(seen)))
}

fn is_mariadb(report: &ServerReport) -> bool {
    report.get("version").is_some_and(|version| version.contains("MariaDB"))
}

/// Judges what was not tested.
fn judge_kind(report: &ServerReport) -> Option<Finding> {
    if report.get("aurora_version").is_some() {
        return Some(Finding::note("this is Aurora, on which locks were not tested"));
    }
    (!is_mariadb(report)).then(|| Finding::note("this is MySQL, on which locks were not tested; on MariaDB they were"))
}

/// Judges whether the one who made the schema sees what others do.
fn judge_visible(report: &ServerReport) -> Option<Finding> {
    report.get("hidden_from").map(|_| {
        let definer = report.words("hidden_from");
        let what = format!(
            "transactions of others are not visible to this user, since they are not to `{definer}`, who made the \
             schema"
        );
        let (name, host) = definer.rsplit_once('@').unwrap_or((&definer, "%"));
        let quoted = |word: &str| word.replace('\\', r"\\").replace('\'', "''");
        Finding::new(Severity::Note, what, format!("GRANT PROCESS ON *.* TO '{}'@'{}';", quoted(name), quoted(host)))
    })
}

/// Judges whether others are written to.
fn judge_cluster(report: &ServerReport) -> Option<Finding> {
    if report.is_on("wsrep_on") {
        let nodes = report.words("wsrep_cluster_size");
        let what = format!("this is one of {nodes} nodes of Galera: two nodes grant one lock at once");
        let cure = "see that all clients of locks reach this node alone, also after it has failed";
        return Some(Finding::new(Severity::Warning, what, cure));
    }
    let group = report.get("group_replication_group_name").filter(|name| !name.is_empty());
    group?;
    if report.is_off("group_replication_single_primary_mode") {
        let what = "this is a group with several primaries, which grant one lock at once";
        return Some(Finding::new(Severity::Error, what, "set `group_replication_single_primary_mode = ON`"));
    }
    Some(Finding::note("this is a group with one primary, on which locks were not tested"))
}

/// Judges whether it writes: that may change while a session lives.
fn judge_reading(report: &ServerReport) -> Option<Finding> {
    (report.is_on("read_only") || report.is_on("innodb_read_only")).then(|| {
        let what = "no lock can be had: the server only reads (`read_only`)";
        Finding::new(Severity::Error, what, "name the server that is written to")
    })
}

/// Judges what a crash may lose.
fn judge_flushing(report: &ServerReport) -> Option<Finding> {
    let cure = "set `innodb_flush_log_at_trx_commit = 1`";
    match report.get("innodb_flush_log_at_trx_commit")? {
        "1" | "3" => None,
        "2" => {
            let what = "a crash of the server's machine loses the grants of the last second \
                        (`innodb_flush_log_at_trx_commit = 2`)";
            Some(Finding::new(Severity::Note, what, format!("{cure} if that may not be")))
        }
        value => {
            let what = format!(
                "a crash of the server loses the grants of the last second (`innodb_flush_log_at_trx_commit = {value}`)"
            );
            Some(Finding::new(Severity::Warning, what, cure))
        }
    }
}

/// Judges what replicas are told by.
fn judge_log(report: &ServerReport) -> Option<Finding> {
    if !report.is_on("log_bin") {
        return None;
    }
    if report.get("binlog_format").is_some_and(|format| format.eq_ignore_ascii_case("STATEMENT")) {
        let what = "new clients of locks are refused: the server logs statements (`binlog_format = STATEMENT`)";
        return Some(Finding::new(Severity::Error, what, "set `binlog_format = ROW` or `MIXED`"));
    }
    let every = report.get("sync_binlog").filter(|every| *every != "1")?;
    let what =
        format!("a crash of the server's machine may keep the last grants from replicas (`sync_binlog = {every}`)");
    Some(Finding::new(Severity::Note, what, "set `sync_binlog = 1` if a replica may be promoted"))
}

/// Judges what a promotion may lose.
fn judge_replicas(report: &ServerReport) -> Option<Finding> {
    let replicas = report.number("slaves_connected");
    if replicas? == 0 {
        return judge_alone(replicas);
    }
    let is_synchronous = ["rpl_semi_sync_master_status", "rpl_semi_sync_source_status"];
    if report.is_on("wsrep_on") || is_synchronous.iter().any(|status| report.is_on(status)) {
        return None;
    }
    let what = "a replica that is promoted may lack the last grants (replication is asynchronous): their holders lose \
                them, and no lock is granted for the greatest session timeout";
    Some(Finding::new(Severity::Warning, what, "set `rpl_semi_sync_master_enabled = ON`, and the same on the replicas"))
}

fn judge_history(report: &ServerReport) -> Option<Finding> {
    let length = report.number("history").filter(|length| *length > HISTORY_MAX)?;
    let what = format!("{length} old versions of rows are kept, which slow all joins down");
    Some(Finding::new(Severity::Warning, what, "see what keeps the purge from them: long transactions"))
}
