//! `setup`: what it makes, or prints for a client of the database, is enough for a user who may only call the
//! functions.

use std::fs::File;
use std::process::{Command, Stdio};

use lockkeeper_faults::{mariadb, postgres};

use crate::machine::Site;

/// What the user with the least rights may do.
const POSTGRESQL_GRANTS: &str =
    "GRANT USAGE ON SCHEMA lockkeeper TO app; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lockkeeper TO app";
const MARIADB_GRANTS: &str = "GRANT EXECUTE ON lockkeeper.* TO app@'%'";

/// Sets the service of a URL up, twice.
fn set_up_twice(url: &str) {
    for _ in 0..2 {
        let ended = Site::of(url).place.run(&["setup"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:?}");
        assert!(ended.stderr.contains("is set up"), "{ended:?}");
    }
}

/// Pipes what `setup --print` says of the service of a URL into a client.
fn pipe_into(url: &str, client: &mut Command) {
    let site = Site::of(url);
    let printed = site.place.run(&["setup", "--print"]);
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""), "{printed:?}");
    site.write("setup.sql", &printed.stdout);
    let script = File::open(site.notes().join("setup.sql")).expect("it was written");
    let ended = client.stdin(script).stdout(Stdio::null()).output().expect("the client starts");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// Asserts that a command gets its lock, and leaves nothing.
fn assert_locks(url: &str) {
    let site = Site::of(url);
    let ended = site.place.run(&["run", "-q", "job", "--", "echo", "it runs"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "it runs\n", ""), "{ended:?}");
    site.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_setup_twice_a_role_that_may_only_call_the_functions_locks_on_postgresql() {
    let test = "setup::after_setup_twice_a_role_that_may_only_call_the_functions_locks_on_postgresql";
    if !postgres::availability().or_skip(test) {
        return;
    }
    let server = postgres::Server::standalone().await.expect("a server");
    set_up_twice(&server.url("postgres"));
    server.create_user("app", "s3cret").await.expect("a user");
    server.ask(POSTGRESQL_GRANTS).await.expect("rights");
    assert_locks(&server.url_as("app", Some("s3cret"), "postgres"));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_setup_twice_a_user_who_may_only_call_the_procedures_locks_on_mariadb() {
    let test = "setup::after_setup_twice_a_user_who_may_only_call_the_procedures_locks_on_mariadb";
    if !mariadb::availability().or_skip(test) {
        return;
    }
    let server = mariadb::Server::standalone().await.expect("a server");
    set_up_twice(&server.url(""));
    server.create_user("app", "s3cret").await.expect("a user");
    server.ask(MARIADB_GRANTS).await.expect("rights");
    assert_locks(&server.url_as("app", Some("s3cret"), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_setup_prints_for_postgresql_makes_a_working_schema_with_psql() {
    if !postgres::availability().or_skip("setup::what_setup_prints_for_postgresql_makes_a_working_schema_with_psql") {
        return;
    }
    let server = postgres::Server::standalone().await.expect("a server");
    let url = server.url("postgres");
    let psql = postgres::program("psql").expect("it comes with the server");
    pipe_into(&url, Command::new(psql).args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &url]));
    server.create_user("app", "s3cret").await.expect("a user");
    server.ask(POSTGRESQL_GRANTS).await.expect("rights");
    assert_locks(&server.url_as("app", Some("s3cret"), "postgres"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_setup_prints_for_mariadb_makes_a_working_schema_with_its_client() {
    let test = "setup::what_setup_prints_for_mariadb_makes_a_working_schema_with_its_client";
    if !mariadb::availability().or_skip(test) {
        return;
    }
    let server = mariadb::Server::standalone().await.expect("a server");
    let (host, port) = (server.address().ip().to_string(), server.address().port().to_string());
    let client = ["--no-defaults", "--protocol=tcp", "--user=root", "--host", &host, "--port", &port];
    pipe_into(&server.url(""), Command::new("mariadb").args(client));
    server.create_user("app", "s3cret").await.expect("a user");
    server.ask(MARIADB_GRANTS).await.expect("rights");
    assert_locks(&server.url_as("app", Some("s3cret"), ""));
}

/// Allows longer session timeouts of the service of a URL.
fn allow_longer_timeouts(url: &str) {
    let refused = Site::of(&format!("{url}?session_timeout=90s")).place.run(&["run", "-q", "job", "--", "true"]);
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(refused.stderr.contains("lockkeeper setup --max-session-timeout 90000ms"), "{refused:?}");
    let place = Site::of(url).place;
    let failed = place.run(&["setup", "--max-session-timeout", "11m"]);
    assert!(failed.code == Some(125) && failed.stderr.contains("between 2s and 600s"), "{failed:?}");
    let allowed = place.run(&["setup", "--max-session-timeout", "90s"]);
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    let found = place.run(&["doctor"]);
    assert!(found.stdout.contains("no lock is granted until a client has waited, for 90s at most"), "{found:?}");
    let told = place.run(&["doctor", "--after-restore"]);
    assert!(told.stdout.contains("until every session of before the restore has run out"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longer_session_timeout_is_refused_until_setup_allows_it_and_then_all_wait() {
    let test = "setup::a_longer_session_timeout_is_refused_until_setup_allows_it_and_then_all_wait";
    if postgres::availability().or_skip(test) {
        let server = postgres::Server::standalone().await.expect("a server");
        assert_locks(&server.url("postgres"));
        allow_longer_timeouts(&server.url("postgres"));
    }
    if mariadb::availability().or_skip(test) {
        let server = mariadb::Server::standalone().await.expect("a server");
        assert_locks(&server.url(""));
        allow_longer_timeouts(&server.url(""));
    }
}

#[test]
fn a_url_of_sqlite_is_refused_and_names_that_of_a_folder() {
    let ended = Site::of("sqlite:/var/lib/app.db").place.run(&["setup"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(125), ""), "{ended:?}");
    assert!(ended.stderr.contains("`file:DIRECTORY`"), "{ended:?}");
}
