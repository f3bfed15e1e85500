//! `setup`: what it makes, or prints for a client of the database, is enough for a user who may only call the
//! functions.

use std::fs::File;
use std::process::{Command, Stdio};

use lockkeeper_faults::postgres;

use crate::services::{Server, Service, on_each};
use crate::site::Site;

/// Sets the service of a URL up, twice.
fn set_up_twice(url: &str) {
    for _ in 0..2 {
        let ended = Site::of(url).run(&["setup"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:?}");
        assert!(ended.stderr.contains("is set up"), "{ended:?}");
    }
}

/// Pipes what `setup --print` says of the service of a URL into a client.
fn pipe_into(url: &str, client: &mut Command) {
    let site = Site::of(url);
    site.write("setup.sql", &site.printed(&["setup", "--print"]));
    let script = File::open(site.notes().join("setup.sql")).expect("it was written");
    let ended = client.stdin(script).stdout(Stdio::null()).output().expect("the client starts");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// Asserts that a command gets its lock, and leaves nothing.
fn assert_locks(url: &str) {
    let site = Site::of(url);
    assert_eq!(site.printed(&["run", "-q", "job", "--", "echo", "it runs"]), "it runs\n");
    site.assert_nothing_left();
}

/// Asserts that a user who may only call the functions gets a lock, and nothing of it is left.
async fn least_rights_lock(server: &Server) {
    let schema = "GRANT USAGE ON SCHEMA lockkeeper TO app; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lockkeeper TO app";
    let url = match server {
        Server::PostgreSql(server) => {
            server.create_user("app", "s3cret").await.expect("a user");
            server.ask(schema).await.expect("rights");
            server.url_as("app", Some("s3cret"), "postgres")
        }
        Server::MariaDb(server) => {
            server.create_user("app", "s3cret").await.expect("a user");
            server.ask("GRANT EXECUTE ON lockkeeper.* TO app@'%'").await.expect("rights");
            server.url_as("app", Some("s3cret"), "")
        }
        _ => unreachable!("no database"),
    };
    assert_locks(&url);
}

async fn locks_after_setup(_: Service, server: Server) {
    set_up_twice(&server.url());
    least_rights_lock(&server).await;
}

on_each! { locks_after_setup:
    PostgreSql "postgres" after_setup_twice_a_role_that_may_only_call_the_functions_locks_on_postgresql;
    MariaDb "mysql" after_setup_twice_a_user_who_may_only_call_the_procedures_locks_on_mariadb;
}

/// Asserts that looks at a new database find each lock free, and make no schema.
async fn looks_make_nothing(_: Service, server: Server) {
    let site = Site::of(&server.url());
    for line in [&["ls"][..], &["show", "job"], &["wait", "job"], &["doctor"], &["capabilities"]] {
        let ended = site.run(line);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{line:?}: {ended:?}");
    }
    let schemas = "SELECT schema_name FROM information_schema.schemata WHERE schema_name = 'lockkeeper'";
    let found = match &server {
        Server::PostgreSql(server) => server.ask(schemas).await,
        Server::MariaDb(server) => server.ask(schemas).await,
        _ => unreachable!("no database"),
    };
    assert!(found.expect("an answer").iter().flatten().next().is_none());
    assert_locks(&server.url());
}

on_each! { looks_make_nothing:
    PostgreSql "postgres" looks_at_a_new_database_make_no_schema_on_postgresql;
    MariaDb "mysql" looks_at_a_new_database_make_no_schema_on_mariadb;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_setup_prints_for_postgresql_makes_a_working_schema_with_psql() {
    let Some(server) = Service::PostgreSql.start().await else { return };
    let psql = postgres::program("psql").expect("it comes with the server");
    let url = server.url();
    pipe_into(&url, Command::new(psql).args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &url]));
    least_rights_lock(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_setup_prints_for_mariadb_makes_a_working_schema_with_its_client() {
    let Some(server) = Service::MariaDb.start().await else { return };
    let (host, port) = (server.address().ip().to_string(), server.address().port().to_string());
    let client = ["--no-defaults", "--protocol=tcp", "--user=root", "--host", &host, "--port", &port];
    pipe_into(&server.url(), Command::new("mariadb").args(client));
    least_rights_lock(&server).await;
}

/// Allows longer session timeouts of the service of a URL.
fn allow_longer_timeouts(url: &str) {
    let refused = Site::of(&format!("{url}?session_timeout=90s")).run(&["run", "-q", "job", "--", "true"]);
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(refused.stderr.contains("lockkeeper setup --max-session-timeout 90000ms"), "{refused:?}");
    let place = Site::of(url);
    let failed = place.run(&["setup", "--max-session-timeout", "11m"]);
    assert!(failed.code == Some(125) && failed.stderr.contains("from `2s` to `10m`"), "{failed:?}");
    assert_eq!(place.run(&["setup", "--max-session-timeout", "90s"]).code, Some(0));
    let found = place.run(&["doctor"]);
    assert!(found.stdout.contains("no lock is granted until a client has waited, for 90s at most"), "{found:?}");
    let told = place.run(&["doctor", "--after-restore"]);
    assert!(told.stdout.contains("until every session of before the restore has run out"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longer_session_timeout_is_refused_until_setup_allows_it_and_then_all_wait() {
    for service in [Service::PostgreSql, Service::MariaDb] {
        let Some(server) = service.start().await else { continue };
        assert_locks(&server.url());
        allow_longer_timeouts(&server.url());
    }
}

#[test]
fn a_url_of_sqlite_is_refused_and_names_that_of_a_folder() {
    let ended = Site::of("sqlite:/var/lib/app.db").run(&["setup"]);
    ended.assert_refused(125, &["`file:DIRECTORY`"]);
}
