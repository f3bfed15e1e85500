//! What `run` says of a database that is not as it should be: one line, exit 125, and nothing is left there.

use lockkeeper_faults::authority::Authority;

use crate::services::{Server, Service};
use crate::site::{BRIEFLY, Site, assert_refused};
use crate::sql::{With, start};

/// However busy the machine is, a server is asked until it answers.
const SETTINGS: &str = "session_timeout=30s&connect_timeout=2m";

/// What the servers' certificates are for.
const NAME: &str = "db.example";

/// What commands leave in the tables.
const LEFT: &str = "SELECT (SELECT COUNT(*) FROM lockkeeper.session) + (SELECT COUNT(*) FROM lockkeeper.contender)";

/// The same URL for a command that is refused.
fn briefly(url: &str) -> String {
    format!("{url}?session_timeout=30s&{BRIEFLY}")
}

/// Asserts that a command runs.
#[track_caller]
fn assert_runs(url: &str) {
    let ended = Site::of(url).run(&["run", "-n", "door", "--", "echo", "it runs"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "it runs\n"), "{ended:?}");
    // On a busy machine the making of the schema may last until it is told of.
    assert!(ended.stderr.lines().all(|line| line.starts_with("lockkeeper: waiting for ")), "{ended:?}");
}

/// Asserts what is said of a schema of another version.
async fn other_versions_are_refused(server: &Server, good: &str) {
    server.ask("UPDATE lockkeeper.meta SET version = 3").await;
    assert_refused(good, &["newer version 3"]);
    server.ask("UPDATE lockkeeper.meta SET version = 0").await;
    assert_refused(good, &["of version 0", "`lockkeeper setup`"]);
    assert_eq!(server.value(LEFT).await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_postgresql_that_is_not_as_it_should_be_says_why_in_one_line_and_leaves_nothing() {
    let Some(server) = start(Service::PostgreSql, With::Password).await else { return };
    let Server::PostgreSql(itself) = &server else { unreachable!("it was started") };
    let good = briefly(&server.url());
    assert_refused(&briefly(&server.url_as("postgres", Some("s3cret-not"))), &["password", "28P01"]);
    assert_refused(&briefly(&server.url_as("postgres", None)), &["password"]);
    itself.create_database("ascii", "SQL_ASCII").await.expect("a database");
    assert_refused(&briefly(&itself.url("ascii")), &["`ascii`", "SQL_ASCII", "UTF8"]);
    let of_app = briefly(&server.create_app().await);
    assert_refused(&of_app, &["GRANT CREATE ON DATABASE"]);
    server.ask("ALTER ROLE postgres SET statement_timeout = '1ms'").await;
    assert_runs(&format!("{}?{SETTINGS}", server.url()));
    server.ask("ALTER ROLE postgres RESET ALL").await;
    assert_refused(&of_app, &["GRANT USAGE ON SCHEMA"]);
    let standby = itself.standby().await.expect("a standby");
    assert_refused(&briefly(&standby.url("postgres")), &["standby"]);
    server.ask("DROP FUNCTION lockkeeper.unwatch_v1").await;
    other_versions_are_refused(&server, &good).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_mariadb_that_is_not_as_it_should_be_says_why_in_one_line_and_leaves_nothing() {
    let Some(server) = start(Service::MariaDb, With::Password).await else { return };
    let good = briefly(&server.url());
    assert_refused(&briefly(&server.url_as("root", Some("s3cret-not"))), &["password", "(error 1045)"]);
    assert_refused(&briefly(&server.create_app().await), &["GRANT EXECUTE ON `lockkeeper`.*"]);
    server.ask("SET GLOBAL max_statement_time = 0.001").await;
    assert_runs(&format!("{}?{SETTINGS}", server.url()));
    server.ask("SET GLOBAL max_statement_time = 0; SET GLOBAL read_only = 1").await;
    assert_refused(&good, &["only reads (`read_only`)"]);
    server.ask("SET GLOBAL read_only = 0; DROP PROCEDURE lockkeeper.unwatch_v1").await;
    other_versions_are_refused(&server, &good).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_says_what_is_wrong_with_tls_to_a_database() {
    for (service, scheme, to_it, plainly, by_tls) in [
        (Service::PostgreSql, "postgres+tls", "postgres@", "`postgres:`", "`postgres+tls:`"),
        (Service::MariaDb, "mariadb+tls", "root@", "`mysql:`", "`mysql+tls:`"),
    ] {
        let [ours, other] = [(); 2].map(|()| Authority::new(NAME).expect("an authority"));
        let Some(secured) = start(service, With::Tls(ours.server_papers())).await else { continue };
        let plain = service.start().await.expect("another one");
        let database = if service == Service::PostgreSql { "postgres" } else { "" };
        let url = |server: &Server, name: &str, trusted: &Authority, settings: &str| {
            let [ca, cert, key] = [trusted.file("ca"), ours.file("client"), ours.file("client-key")];
            let files = format!("ca={}&cert={}&key={}", ca.display(), cert.display(), key.display());
            format!("{scheme}://{to_it}{}/{database}?{settings}&server_name={name}&{files}", server.address())
        };
        assert_runs(&url(&secured, NAME, &ours, SETTINGS));
        assert_refused(&url(&secured, NAME, &other, BRIEFLY), &["`ca` names the authority"]);
        assert_refused(&url(&secured, "elsewhere.example", &ours, BRIEFLY), &["`elsewhere.example`"]);
        assert_refused(&url(&plain, NAME, &ours, BRIEFLY), &[plainly]);
        assert_refused(&briefly(&secured.url()), &[by_tls]);
        assert_eq!(secured.value(LEFT).await, "0");
    }
}
