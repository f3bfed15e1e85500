//! Tests of the findings on servers that say this or that, and of how that is read.

use super::*;
use crate::examine::judge_all;

const URL: &str = "postgres://h1/db?session_timeout=20s";

#[cfg(feature = "postgres")]
const POSTGRES: [(&str, &str); 19] = [
    ("server_version", "15.18 (Debian 15.18-0+deb12u1)"),
    ("server_encoding", "UTF8"),
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("synchronous_commit", "on"),
    ("synchronous_standby_names", "ANY 1 (*)"),
    ("max_connections", "100"),
    ("superuser_reserved_connections", "3"),
    ("schema_version", "2"),
    ("instance", "77/00000001"),
    ("is_settled", "true"),
    ("timeout_max_ms", "20000"),
    ("owner", "postgres"),
    ("sees_others", "true"),
    ("listening", "95"),
    ("connections", "87"),
    ("standbys", "1"),
    ("standbys_in_step", "1"),
    ("dead_queue", "100000"),
];

#[cfg(feature = "mysql")]
const MARIADB: [(&str, &str); 14] = [
    ("version", "10.11.19-MariaDB-0+deb12u1"),
    ("schema_version", "2"),
    ("instance", "1/h1/3306"),
    ("is_settled", "true"),
    ("innodb_flush_log_at_trx_commit", "1"),
    ("log_bin", "ON"),
    ("sync_binlog", "1"),
    ("binlog_format", "MIXED"),
    ("wsrep_on", "OFF"),
    ("threads_connected", "135"),
    ("max_connections", "151"),
    ("slaves_connected", "1"),
    ("rpl_semi_sync_master_status", "ON"),
    ("history", "1000000"),
];

fn config(url: &str) -> Config {
    Config::from_url(&url.parse().expect("a URL")).expect("a good URL")
}

/// What is found beside the note that says what there is, of a server in order but for these facts.
fn found_of(url: &str, usual: &[(&str, &str)], changes: &[(&str, &str)]) -> Vec<Finding> {
    let facts = [usual, changes].concat();
    let (config, report) = (config(url), ServerReport::with(&facts));
    let mut found = judge_all(&Examined {
        config: &config,
        wake_method: WakeMethod::Notified,
        clocks: None,
        median: Duration::from_micros(400),
        report: &report,
    });
    let about = found.remove(0);
    assert!(about.severity == Severity::Note && about.what.contains("a request takes 0.4 ms"), "{about}");
    found
}

/// Asserts that one thing is found of a server with these facts, and that all findings are one line.
#[track_caller]
fn assert_one(found: &[Finding], expected: Option<(Severity, &str)>, of: &[(&str, &str)]) {
    match (found, expected) {
        ([], None) => {}
        ([one], Some((severity, word))) => {
            let text = one.to_string();
            assert!(one.severity == severity && text.contains(word) && !text.contains('\n'), "{of:?}: {text}");
        }
        _ => panic!("{of:?}: {found:?}"),
    }
}

#[cfg(feature = "postgres")]
#[test]
fn postgresql_is_judged_by_its_settings_and_by_its_tables() {
    use Severity::{Error, Note, Warning};
    for (changes, expected) in [
        (&[][..], None),
        (&[("fsync", "off")], Some((Warning, "fsync"))),
        (&[("full_page_writes", "off")], Some((Warning, "full_page_writes"))),
        (&[("synchronous_commit", "off")], Some((Note, "all the same"))),
        (&[("synchronous_commit", "remote_apply")], None),
        (&[("synchronous_commit", "remote_write")], Some((Note, "last grants"))),
        (&[("synchronous_standby_names", "")], Some((Warning, "may lack the last grants"))),
        (&[("synchronous_standby_names", ""), ("standbys", "0")], Some((Note, "no standby"))),
        (&[("standbys_in_step", "0")], Some((Error, "no lock can be had"))),
        (
            &[("standbys_in_step", "0"), ("sees_others", "false")],
            Some((Note, "GRANT pg_read_all_stats TO \"postgres\";")),
        ),
        (&[("is_aurora", "true")], Some((Note, "Aurora"))),
        (&[("is_aurora", "false")], None),
        (&[("schema_version", "0")], Some((Warning, "older"))),
        (&[("schema_version", "3")], Some((Note, "newer"))),
        (&[("listening", "96")], Some((Note, "96 sessions listen; beyond 128"))),
        (&[("listening", "127")], Some((Note, "127 sessions"))),
        (&[("listening", "128")], Some((Warning, "the limit"))),
        (&[("connections", "88")], Some((Warning, "9 of the server's 97 connections"))),
        (&[("oldest_on_ours", "9 4711 psql")], None),
        (&[("oldest_on_ours", "10 4711 psql")], Some((Warning, "process 4711 (psql) has used our tables for 10 s"))),
        (&[("oldest", "299 4711 psql")], None),
        (&[("oldest", "300 4711 ")], Some((Warning, "process 4711 goes on for 300 s"))),
        (&[("prepared_s", "299")], None),
        (&[("prepared_s", "300")], Some((Warning, "prepared transaction"))),
        (&[("dead_queue", "100001")], Some((Warning, "`queue` has 100001 dead rows"))),
        (&[("dead_contender", "100000"), ("dead_session", "100001")], Some((Warning, "`session` has 100001"))),
    ] {
        assert_one(&found_of(URL, &POSTGRES, changes), expected, changes);
    }
}

#[cfg(feature = "mysql")]
#[test]
fn mariadb_is_judged_by_its_settings_and_mysql_is_said_to_be_untested() {
    use Severity::{Error, Note, Warning};
    let group = ("group_replication_group_name", "g");
    for (changes, expected) in [
        (&[][..], None),
        (&[("version", "8.4.2")], Some((Note, "not tested"))),
        (&[("aurora_version", "3.04.0"), ("version", "8.0.28")], Some((Note, "Aurora"))),
        (&[("schema_version", "0")], Some((Warning, "older"))),
        (&[("schema_version", "3")], Some((Note, "newer"))),
        (&[("hidden_from", "own'er@%")], Some((Note, "GRANT PROCESS ON *.* TO 'own''er'@'%';"))),
        (&[("wsrep_on", "ON"), ("wsrep_cluster_size", "3")], Some((Warning, "one of 3 nodes of Galera"))),
        (&[group, ("group_replication_single_primary_mode", "ON")], Some((Note, "one primary"))),
        (&[group, ("group_replication_single_primary_mode", "OFF")], Some((Error, "several primaries"))),
        (&[("group_replication_group_name", "")], None),
        (&[("read_only", "ON")], Some((Error, "only reads"))),
        (&[("read_only", "OFF")], None),
        (&[("innodb_flush_log_at_trx_commit", "0")], Some((Warning, "a crash of the server loses"))),
        (&[("innodb_flush_log_at_trx_commit", "2")], Some((Note, "machine"))),
        (&[("binlog_format", "STATEMENT")], Some((Error, "binlog_format"))),
        (&[("binlog_format", "ROW")], None),
        (&[("sync_binlog", "0")], Some((Note, "sync_binlog = 0"))),
        (&[("sync_binlog", "0"), ("binlog_format", "STATEMENT"), ("log_bin", "OFF")], None),
        (&[("slaves_connected", "0")], Some((Note, "no standby"))),
        (&[("rpl_semi_sync_master_status", "OFF")], Some((Warning, "asynchronous"))),
        (&[("threads_connected", "136")], Some((Warning, "15 of the server's 151 connections"))),
        (&[("oldest", "299 12")], None),
        (&[("oldest", "300 12")], Some((Warning, "process 12 goes on for 300 s"))),
        (&[("oldest", "300 0")], Some((Warning, "a prepared transaction goes on"))),
        (&[("history", "1000001")], Some((Warning, "1000001 old versions"))),
    ] {
        assert_one(&found_of("mariadb://h1", &MARIADB, changes), expected, changes);
    }
}

#[test]
fn another_state_of_the_data_is_told_until_it_is_settled() {
    let settled = ServerReport::with(&[("instance", "one"), ("is_settled", "1"), ("timeout_max_ms", "20000")]);
    assert_eq!(judge_settled(&settled), None);
    let unsettled = ServerReport::with(&[("instance", "one"), ("is_settled", "false"), ("timeout_max_ms", "20000")]);
    let found = judge_settled(&unsettled).expect("no lock is granted");
    assert!(found.severity == Severity::Warning && found.what.contains("20s"), "{found}");
    assert_eq!(judge_settled(&ServerReport::with(&[("is_settled", "false")])), None, "none has locked yet");
}

#[test]
fn waiters_that_look_are_told_of_with_the_reason() {
    for (url, wake_method, word) in [
        (URL, WakeMethod::Notified, None),
        ("mariadb://h1", WakeMethod::NamedLocks, None),
        (URL, WakeMethod::Polled, Some("pooler")),
        ("mariadb://h1", WakeMethod::Polled, Some("proxy")),
        ("mariadb://h1?galera=one-node", WakeMethod::Polled, Some("Galera")),
        ("postgres://h1/db?wake=look", WakeMethod::Polled, Some("wake=look")),
    ] {
        let found = judge_waking(&config(url), wake_method).map(|found| found.what);
        let is_told = word.is_some_and(|word| found.as_ref().is_some_and(|found| found.contains(word)));
        assert_eq!((is_told, found.is_some()), (word.is_some(), word.is_some()), "{url} {wake_method:?}: {found:?}");
    }
}

fn fact(name: &str, value: Option<&str>) -> AnswerRow {
    let (text, ask) = (Some(name.to_owned()), value.map(str::to_owned));
    AnswerRow { what: RowKind::Fact as i16, text, ask, ..AnswerRow::default() }
}

#[test]
fn facts_are_read_and_what_is_not_said_is_not_known() {
    let status = AnswerRow { text: Some("ok".to_owned()), ..AnswerRow::default() };
    let rows = [status, fact("fsync", Some("off")), fact("oldest", None), fact("count", Some("7"))];
    let report = ServerReport::of(&rows).expect("a report");
    assert_eq!((report.get("fsync"), report.get("oldest"), report.number("count")), (Some("off"), None, Some(7)));
    assert_eq!((report.number("fsync"), report.is_off("fsync"), report.is_off("oldest")), (None, true, false));
    ServerReport::of(&rows[1..]).expect_err("no status");
}

#[test]
fn what_other_programs_have_chosen_is_cut_to_one_line() {
    let long = format!("12 34 a\nb{}", "c".repeat(100));
    let report = ServerReport::with(&[("oldest", &long), ("bare", "75 8"), ("strange", "x y z")]);
    let read = report.transaction("oldest").expect("a transaction");
    assert!(read.client.starts_with("abc") && read.client.len() == NAME_CHARACTERS_MAX, "{read:?}");
    let bare = LongTransaction { age_s: 75, process: 8, client: String::new() };
    assert_eq!((report.transaction("bare"), report.transaction("strange")), (Some(bare), None));
}
