//! Tests of the findings on servers that say this or that.

use super::*;

fn report(fields: &[(&str, &str)]) -> RedisReport {
    let mut report = RedisReport::default();
    fields.iter().for_each(|(name, value)| report.set(name, (*value).to_owned()));
    report
}

fn severity(finding: Option<&Finding>) -> Option<Severity> {
    finding.map(|finding| finding.severity)
}

const TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn versions_that_crash_by_tracking_are_found() {
    for (software, version, is_sound) in [
        ("redis", (6, 0, 16), false),
        ("redis", (6, 2, 10), false),
        ("redis", (6, 2, 11), true),
        ("redis", (7, 0, 8), false),
        ("redis", (7, 0, 9), true),
        ("redis", (7, 2, 0), true),
        ("valkey", (7, 0, 0), true),
    ] {
        let (major, minor, patch) = version;
        let version = Version::new(major, minor, patch);
        let found = judge_version(&HelloReply {
            software: software.to_owned(),
            version,
            is_of_cluster: false,
            is_replica: false,
        });
        assert_eq!(severity(found.as_ref()), (!is_sound).then_some(Severity::Warning), "{software} {version}");
    }
}

#[test]
fn a_policy_that_evicts_locks_is_an_error_where_memory_is_limited() {
    for (policy, maxmemory, expected) in [
        ("noeviction", "1000", None),
        ("volatile-lru", "1000", None),
        ("allkeys-lru", "1000", Some(Severity::Error)),
        ("allkeys-random", "0", Some(Severity::Note)),
    ] {
        let found = judge_eviction(&report(&[("maxmemory_policy", policy), ("maxmemory", maxmemory)]));
        assert_eq!(severity(found.as_ref()), expected, "{policy} {maxmemory}");
    }
    assert_eq!(judge_eviction(&report(&[])), None);
}

#[test]
fn a_restart_that_loses_grants_is_found() {
    for (fields, expected, word) in [
        (vec![("aof_enabled", "1"), ("appendfsync", "always")], None, ""),
        (vec![("aof_enabled", "1"), ("appendfsync", "everysec")], Some(Severity::Note), "last second"),
        (vec![("aof_enabled", "1"), ("appendfsync", "no")], Some(Severity::Warning), "not written yet"),
        (vec![("aof_enabled", "1"), ("aof_last_write_status", "err")], Some(Severity::Error), "refuses writes"),
        (vec![("aof_enabled", "0"), ("save", "")], Some(Severity::Warning), "all grants"),
        (vec![("aof_enabled", "0"), ("save", "3600 1")], Some(Severity::Warning), "last snapshot"),
        // `CONFIG GET` may be refused.
        (vec![("aof_enabled", "0")], Some(Severity::Warning), "last snapshot"),
        (vec![("aof_enabled", "1"), ("aof_last_write_status", "ok")], None, ""),
        (vec![], None, ""),
    ] {
        let found = judge_persistence(&report(&fields));
        assert_eq!(severity(found.as_ref()), expected, "{fields:?}");
        assert!(found.is_none_or(|found| found.what.contains(word)), "{fields:?}");
    }
}

#[test]
fn a_master_that_grants_locks_while_it_is_cut_off_is_found() {
    const ONLINE: &str = "state=online,lag=0";
    const LATE: &str = "state=online,lag=30";
    for (replicas, asked_for, lag_s, expected, word) in [
        (vec![], Some("0"), "10", vec![Severity::Note], "no replica"),
        (vec![], None, "", vec![Severity::Note], "no replica"),
        (vec![ONLINE], Some("0"), "10", vec![Severity::Warning], "cut off"),
        (vec![ONLINE], Some("1"), "10", vec![], ""),
        (vec![ONLINE, ONLINE, ONLINE], Some("2"), "10", vec![], ""),
        (vec![ONLINE], Some("2"), "10", vec![Severity::Error], "asks for 2"),
        (vec![], Some("1"), "10", vec![Severity::Error], "asks for 1"),
        (vec![LATE], Some("1"), "10", vec![Severity::Error], "0 replicas"),
        (vec![ONLINE], Some("1"), "60", vec![Severity::Note], "60 s"),
        (vec![ONLINE], None, "", vec![], ""),
        (vec![ONLINE, "state=send_bulk"], Some("1"), "10", vec![Severity::Note], "1 of 2"),
    ] {
        let mut said = report(&[("connected_slaves", &replicas.len().to_string())]);
        for (number, replica) in replicas.iter().enumerate() {
            said.set(&format!("slave{number}"), (*replica).to_owned());
        }
        if let Some(asked_for) = asked_for {
            said.set("min-replicas-to-write", asked_for.to_owned());
            said.set("min-replicas-max-lag", lag_s.to_owned());
        }
        let found = judge_replication(&said, TIMEOUT);
        let severities: Vec<_> = found.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, expected, "{replicas:?} {asked_for:?} {lag_s}: {found:?}");
        assert!(found.iter().all(|finding| finding.what.contains(word)), "{found:?}");
    }
    assert_eq!(judge_replication(&report(&[]), TIMEOUT), []);
}

#[test]
fn a_token_of_a_later_time_than_the_clocks_is_found() {
    let now = Duration::from_secs(1_000);
    for (token, is_found) in
        [(None, false), (Some("x"), false), (Some("1000500000"), false), (Some("1002000000"), true)]
    {
        assert_eq!(judge_token(token, now).is_some(), is_found, "{token:?}");
    }
}

#[test]
fn another_layout_below_the_base_is_an_error() {
    assert_eq!((judge_layout("app", None), judge_layout("app", Some("1"))), (None, None));
    assert_eq!(severity(judge_layout("app", Some("2")).as_ref()), Some(Severity::Error));
}

#[test]
fn only_policies_that_evict_keys_with_a_time_to_live_are_a_danger_to_plain_locks_alone() {
    for (policy, is_told) in [("noeviction", false), ("volatile-lru", true), ("volatile-ttl", true)] {
        let found = judge_eviction_of_plain(&report(&[("maxmemory_policy", policy)]));
        assert_eq!(found.is_some_and(|found| found.severity == Severity::Warning), is_told, "{policy}");
    }
}

#[test]
fn fields_and_replicas_are_read_from_what_a_server_says_and_what_is_not_said_is_not_known() {
    let info = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\nmaxmemory:0\r\n\
                slave0:ip=127.0.0.1,port=1,state=online,offset=84,lag=1\r\n\
                slave1:ip=127.0.0.1,port=2,state=wait_bgsave,offset=0,lag=0\r\n";
    let report = RedisReport::of_info(info);
    assert_eq!(
        (report.get("role"), report.number("maxmemory"), report.number("role")),
        (Some("master"), Some(0), None)
    );
    let replicas = [Replica { is_online: true, lag_s: 1 }, Replica { is_online: false, lag_s: 0 }];
    assert_eq!(report.replicas().as_deref(), Some(&replicas[..]));
    for info in ["", "\r\n:\r\nconnected_slaves:x", "connected_slaves"] {
        assert_eq!(RedisReport::of_info(info).replicas(), None, "{info:?}");
    }
    assert_eq!(RedisReport::of_info("connected_slaves:18446744073709551615").replicas(), Some(Vec::new()));
}
