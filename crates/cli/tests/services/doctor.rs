//! What `doctor` and `capabilities` say of a server.

use lockkeeper_faults::{mariadb, redis};
use serde_json::Value;

use crate::services::{Server, Service};
use crate::sql;
use crate::support::Place;
use crate::zookeeper::{server_of_twenty_ticks, site};

/// Asserts how a command on the service of a URL ends, and that it says all this in lines, and nothing else goes wrong.
#[track_caller]
fn assert_said(url: &str, command: &str, code: i32, says: &[&str]) {
    let ended = Place::of(url).run(&[command]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""), "{ended:?}");
    for words in says {
        assert!(ended.stdout.lines().any(|line| line.contains(words)), "`{words}` is not in: {ended:?}");
    }
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_nothing_but_notes_where_redis_keeps_what_it_grants_and_else_what_it_may_forget() {
    if !Service::Redis.can_start() {
        return;
    }
    let url = |server: &redis::Server, user: &str| format!("redis://{user}{}", server.address());
    let kept = redis::Setup::new().append_only(redis::Flush::Always).start().await.expect("a server");
    assert_said(&url(&kept, ""), "doctor", 0, &["has no replica"]);
    assert_said(&url(&kept, ""), "capabilities", 0, &["redis", "best effort"]);
    let rights = "~{lockkeeper}* resetchannels +@all -info -config";
    let forgets = redis::Setup::new().memory(64 << 20, "allkeys-lru").user(&format!("ann on >s3cret {rights}"));
    let forgets = forgets.start().await.expect("a server");
    assert_said(&url(&forgets, ""), "doctor", 2, &["allkeys-lru", "appendonly yes"]);
    assert_said(&url(&forgets, "ann:s3cret@"), "doctor", 0, &["INFO", "CONFIG GET"]);
    // Each command says what matters most, unless it is to be quiet.
    let ended = Place::of(&url(&forgets, "")).run(&["run", "job", "--", "true"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[cfg(all(feature = "postgres", feature = "mysql"))]
#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_nothing_but_notes_on_databases_in_order() {
    for (service, kind, scheme) in
        [(Service::PostgreSql, "a primary of PostgreSQL 15", "postgres"), (Service::MariaDb, "MariaDB 10.11", "mysql")]
    {
        let Some(server) = sql::start(service, sql::With::Durable).await else { continue };
        assert_said(&server.url(), "doctor", 0, &[kind, "has no standby"]);
        assert_said(&server.url(), "capabilities", 0, &[scheme]);
    }
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn doctor_says_what_postgresql_may_forget_to_a_role_with_the_least_rights_and_refuses_a_standby() {
    let Some(server) = Service::PostgreSql.start().await else { return };
    let says = ["fsync off", "set `fsync = on`"];
    assert_said(&server.url(), "doctor", 1, &says);
    let of_app = server.create_app().await;
    server.grant_least().await;
    assert_said(&of_app, "doctor", 1, &says);
    let Server::PostgreSql(primary) = &server else { unreachable!("it was started") };
    let standby = primary.standby().await.expect("a standby");
    assert_said(&server.url(), "doctor", 1, &["synchronous_standby_names"]);
    assert_said(&standby.url("postgres"), "doctor", 2, &["the server is a standby"]);
}

#[cfg(feature = "mysql")]
#[tokio::test(flavor = "multi_thread")]
async fn doctor_says_what_mariadb_may_forget_to_a_user_with_the_least_rights() {
    if !Service::MariaDb.can_start() {
        return;
    }
    let setup = mariadb::Setup::new().setting("innodb-flush-log-at-trx-commit", "0");
    let server = Server::MariaDb(setup.start().await.expect("a server"));
    let says = ["innodb_flush_log_at_trx_commit = 0", "set `innodb_flush_log_at_trx_commit = 1`"];
    assert_said(&server.url(), "doctor", 1, &says);
    let of_app = server.create_app().await;
    server.grant_least().await;
    assert_said(&of_app, "doctor", 1, &says);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_ends_with_what_weighs_most_and_capabilities_with_what_is_left() {
    let Some(server) = server_of_twenty_ticks().await else { return };
    for (settings, code, exclusion, word) in [
        ("?session_timeout=6s&tick=500ms", 0, "timed", "note: the service is one server"),
        ("?session_timeout=60s&tick=500ms", 1, "timed", "warning: the server grants a session timeout of 10s"),
        ("?session_timeout=6s&tick=100ms", 2, "best-effort", "error: the URL says tick=100ms"),
    ] {
        let site = site(&server, settings);
        let ended = site.run(&["doctor"]);
        assert_eq!((ended.code, &*ended.stderr), (Some(code), ""), "{settings}: {ended:?}");
        assert!(ended.stdout.lines().any(|line| line.starts_with(word)), "{settings}: {ended:?}");
        let promised: Value = site.run(&["capabilities", "--json"]).json();
        assert_eq!(promised["exclusion"], exclusion, "{promised}");
        assert_eq!(promised["findings"].as_array().unwrap().is_empty(), code == 0, "{promised}");
    }
}
