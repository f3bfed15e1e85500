//! Judgements for PostgreSQL alone.

use lockkeeper_core::{Finding, Severity};

use crate::examine::judge::{
    Examined, ServerReport, TRANSACTION_MAX_S, judge_alone, judge_connections, judge_oldest, judge_on_ours,
    judge_schema, state,
};
use crate::postgres::LISTENERS_MAX;
use crate::schema::VERSION;

/// Our tables whose rows change with each lock.
const TABLES: [&str; 3] = ["queue", "session", "contender"];

/// How many dead rows one of them may have. Between two visits of the vacuum, a minute apart, thousands of hand-offs a
/// second leave fewer.
const DEAD_ROWS_MAX: u64 = 100_000;

pub(crate) fn judge(seen: &Examined<'_>) -> Vec<Finding> {
    let report = seen.report;
    let most = report.number("max_connections");
    let kept = report.number("superuser_reserved_connections").unwrap_or(0);
    let found = [
        Some(about(seen)),
        judge_aurora(report),
        judge_schema(report, VERSION),
        judge_visible(report),
        judge_listeners(report),
        judge_connections(report.number("connections"), most.map(|most| most.saturating_sub(kept))),
        judge_on_ours(report.transaction("oldest_on_ours")),
        judge_oldest(report.transaction("oldest")),
        judge_prepared(report),
    ];
    let mut findings: Vec<_> = found.into_iter().flatten().collect();
    findings.extend(judge_durability(report));
    findings.extend(judge_standbys(report));
    findings.extend(TABLES.iter().filter_map(|table| judge_dead_rows(report, table)));
    findings
}

fn about(seen: &Examined<'_>) -> Finding {
    let report = seen.report;
    let (version, encoding, listening) =
        (report.words("server_version"), report.words("server_encoding"), report.words("listening"));
    Finding::note(format!(
        "a primary of PostgreSQL {version}, with the encoding {encoding}; {}; {listening} sessions listen, of \
         {LISTENERS_MAX} that may",
        state(seen)
    ))
}

fn judge_aurora(report: &ServerReport) -> Option<Finding> {
    report.is_on("is_aurora").then(|| Finding::note("this is Aurora, on which locks were not tested"))
}

/// Judges whether the schema's owner sees what others do.
fn judge_visible(report: &ServerReport) -> Option<Finding> {
    report.is_off("sees_others").then(|| {
        let owner = report.words("owner");
        let what = format!(
            "transactions of others and the state of standbys are not visible to this role, since they are not to \
             `{owner}`, the owner of the schema"
        );
        let owner = owner.replace('"', r#""""#);
        Finding::new(Severity::Note, what, format!(r#"GRANT pg_read_all_stats TO "{owner}";"#))
    })
}

/// Judges what a crash may lose.
fn judge_durability(report: &ServerReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (setting, what) in [
        ("fsync", "a crash of the server's machine loses grants, and may damage all data (`fsync off`)"),
        ("full_page_writes", "a crash of the server's machine may damage our tables (`full_page_writes off`)"),
    ] {
        if report.is_off(setting) {
            findings.push(Finding::new(Severity::Warning, what, format!("set `{setting} = on`")));
        }
    }
    match report.get("synchronous_commit") {
        Some(level @ ("off" | "local")) => {
            let what = format!("`synchronous_commit {level}` does not hold for joins: they are flushed all the same");
            findings.push(Finding::note(what));
        }
        Some("remote_write") if report.number("standbys_in_step").is_some_and(|count| count > 0) => {
            let what = "a standby's machine that crashes together with the primary's may lack the last grants \
                        (`synchronous_commit remote_write`)";
            findings.push(Finding::new(Severity::Note, what, "set `synchronous_commit = on` if that may not be"));
        }
        _ => {}
    }
    findings
}

/// Judges what a promotion may lose.
fn judge_standbys(report: &ServerReport) -> Option<Finding> {
    let standbys = report.number("standbys");
    let names = report.get("synchronous_standby_names")?;
    if !names.is_empty() {
        let in_step = report.number("standbys_in_step")?;
        return (in_step == 0 && report.is_on("sees_others")).then(|| {
            let what = "no lock can be had: each commit waits for a standby (`synchronous_standby_names`), and none of \
                        those is there";
            Finding::new(Severity::Error, what, "start the standbys, or see why they do not follow")
        });
    }
    if standbys? == 0 {
        return judge_alone(standbys);
    }
    let what = "a standby that is promoted may lack the last grants (`synchronous_standby_names` is empty): their \
                holders lose them, and no lock is granted for the greatest session timeout";
    Some(Finding::new(Severity::Warning, what, "set `synchronous_standby_names`, such as to 'ANY 1 (*)'"))
}

/// Judges how many sessions are told by the server.
fn judge_listeners(report: &ServerReport) -> Option<Finding> {
    let most = u64::try_from(LISTENERS_MAX).unwrap_or(u64::MAX);
    let listening = report.number("listening")?;
    let cure = "use one keeper for all locks of a process, and few processes that wait";
    if listening >= most {
        let what = format!("{listening} sessions listen, which is the limit: the waiters of further ones look");
        return Some(Finding::new(Severity::Warning, what, cure));
    }
    (listening * 4 >= most * 3).then(|| {
        let what = format!("{listening} sessions listen; beyond {most}, the waiters of further ones look");
        Finding::new(Severity::Note, what, cure)
    })
}

/// Judges the transactions that are prepared, and wait for a word of their coordinator.
fn judge_prepared(report: &ServerReport) -> Option<Finding> {
    let age_s = report.number("prepared_s").filter(|age_s| *age_s >= TRANSACTION_MAX_S)?;
    let what = format!(
        "a prepared transaction waits for {age_s} s: dead rows of our tables are kept for it, which slows all joins \
         down"
    );
    let cure = "end it by COMMIT PREPARED or ROLLBACK PREPARED; `pg_prepared_xacts` has its name";
    Some(Finding::new(Severity::Warning, what, cure))
}

fn judge_dead_rows(report: &ServerReport, table: &str) -> Option<Finding> {
    let dead = report.number(&format!("dead_{table}")).filter(|dead| *dead > DEAD_ROWS_MAX)?;
    let what = format!("our table `{table}` has {dead} dead rows, which slow all joins down");
    let cure = "see what keeps the vacuum from them: long transactions, or `autovacuum off`";
    Some(Finding::new(Severity::Warning, what, cure))
}
