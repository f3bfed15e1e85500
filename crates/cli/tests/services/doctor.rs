//! What `doctor` and `capabilities` say of a server.

use lockkeeper_faults::{mariadb, postgres};

use crate::support::{Ended, Place};

/// What `doctor` says of the service of a URL.
fn doctor(url: &str) -> Ended {
    place(url).run(&["doctor"])
}

fn place(url: &str) -> Place {
    let place = Place::new();
    place.file(".config/lockkeeper/config.toml", &format!("url = '{url}'\n"));
    place
}

/// Asserts how it ended, and that it says all this in lines, and nothing else goes wrong.
#[track_caller]
fn assert_said(ended: &Ended, code: i32, says: &[&str]) {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""), "{ended:?}");
    for words in says {
        assert!(ended.stdout.lines().any(|line| line.contains(words)), "`{words}` is not in: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_nothing_but_notes_on_postgresql_in_order() {
    if !postgres::availability().or_skip("examining::doctor_finds_nothing_but_notes_on_postgresql_in_order") {
        return;
    }
    let server = postgres::Setup::new().durable().start().await.expect("a server");
    let url = server.url("postgres");
    assert_said(&doctor(&url), 0, &["a primary of PostgreSQL 15", "has no standby"]);
    assert_said(&place(&url).run(&["capabilities"]), 0, &["postgres"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_says_what_postgresql_may_forget_to_a_role_with_the_least_rights_and_refuses_a_standby() {
    let test =
        "examining::doctor_says_what_postgresql_may_forget_to_a_role_with_the_least_rights_and_refuses_a_standby";
    if !postgres::availability().or_skip(test) {
        return;
    }
    let server = postgres::Setup::new().start().await.expect("a server");
    let says = ["fsync off", "set `fsync = on`"];
    assert_said(&doctor(&server.url("postgres")), 1, &says);
    server.create_user("app", "s3cret").await.expect("a user");
    let grants = "GRANT USAGE ON SCHEMA lockkeeper TO app; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lockkeeper TO app";
    server.ask(grants).await.expect("rights");
    assert_said(&doctor(&server.url_as("app", Some("s3cret"), "postgres")), 1, &says);
    let standby = server.standby().await.expect("a standby");
    assert_said(&doctor(&server.url("postgres")), 1, &["synchronous_standby_names"]);
    assert_said(&doctor(&standby.url("postgres")), 2, &["the server is a standby"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_nothing_but_notes_on_mariadb_in_order() {
    if !mariadb::availability().or_skip("examining::doctor_finds_nothing_but_notes_on_mariadb_in_order") {
        return;
    }
    let server = mariadb::Setup::new().durable().start().await.expect("a server");
    let url = server.url("");
    assert_said(&doctor(&url), 0, &["MariaDB 10.11", "has no standby"]);
    assert_said(&place(&url).run(&["capabilities"]), 0, &["mysql"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_says_what_mariadb_may_forget_to_a_user_with_the_least_rights() {
    let test = "examining::doctor_says_what_mariadb_may_forget_to_a_user_with_the_least_rights";
    if !mariadb::availability().or_skip(test) {
        return;
    }
    let setup = mariadb::Setup::new().setting("innodb-flush-log-at-trx-commit", "0");
    let server = setup.start().await.expect("a server");
    let says = ["innodb_flush_log_at_trx_commit = 0", "set `innodb_flush_log_at_trx_commit = 1`"];
    assert_said(&doctor(&server.url("")), 1, &says);
    server.ask("CREATE USER app@'%' IDENTIFIED BY 's3cret'").await.expect("a user");
    server.ask("GRANT EXECUTE ON lockkeeper.* TO app@'%'").await.expect("rights");
    assert_said(&doctor(&server.url_as("app", Some("s3cret"), "")), 1, &says);
}
