//! What `run` says of a database that is not as it should be: one line, exit 125, and nothing is left there.

use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::{mariadb, postgres};

use crate::support::{Ended, Place};

/// However busy the machine is, a server is asked until it answers.
const SETTINGS: &str = "session_timeout=30s&connect_timeout=2m";

/// For how long a server is asked that refuses: what may be better later is given up then. Where the machine is too
/// busy for an answer by then, it is asked for longer.
const REFUSED_WITHIN: [&str; 2] = ["connect_timeout=2s", "connect_timeout=30s"];

/// What the servers' certificates are for.
const NAME: &str = "db.example";

/// What commands leave in the tables.
const LEFT: &str = "SELECT (SELECT COUNT(*) FROM lockkeeper.session) + (SELECT COUNT(*) FROM lockkeeper.contender)";

fn run(url: &str) -> Ended {
    let place = Place::new();
    place.file(".config/lockkeeper/config.toml", &format!("url = '{url}'\n"));
    place.run(&["run", "-n", "door", "--", "echo", "it runs"])
}

/// Asserts that a command does not run, with one line that has these words and no password.
#[track_caller]
fn assert_refused(url: &str, words: &[&str]) {
    let [soon, later] = REFUSED_WITHIN.map(|within| url.replace("connect_timeout=2m", within));
    let mut ended = run(&soon);
    if ended.stderr.ends_with("not answered before the deadline\n") {
        ended = run(&later);
    }
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.lines().count()), (Some(125), "", 1), "{ended:?}");
    assert!(ended.stderr.starts_with("lockkeeper: door: "), "{ended:?}");
    assert!(words.iter().all(|word| ended.stderr.contains(word)), "{words:?}: {ended:?}");
    assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
}

/// Asserts that a command runs.
#[track_caller]
fn assert_runs(url: &str) {
    let ended = run(url);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "it runs\n"), "{ended:?}");
    // On a busy machine the making of the schema may last until it is told of.
    assert!(ended.stderr.lines().all(|line| line.starts_with("lockkeeper: waiting for ")), "{ended:?}");
}

/// The files of a URL with TLS: the authorities to trust, and our certificate.
fn files(trusted: &Authority, ours: &Authority) -> String {
    let [ca, cert, key] = [trusted.file("ca"), ours.file("client"), ours.file("client-key")];
    format!("ca={}&cert={}&key={}", ca.display(), cert.display(), key.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_postgresql_that_is_not_as_it_should_be_says_why_in_one_line_and_leaves_nothing() {
    let test = "refusals::a_command_on_postgresql_that_is_not_as_it_should_be_says_why_in_one_line_and_leaves_nothing";
    if !postgres::availability().or_skip(test) {
        return;
    }
    let server = postgres::Setup::new().password("s3cret").start().await.expect("a server");
    let url_as = |user, password, database| format!("{}?{SETTINGS}", server.url_as(user, password, database));
    let good = format!("{}?{SETTINGS}", server.url("postgres"));
    assert_refused(&url_as("postgres", Some("s3cret-not"), "postgres"), &["password", "28P01"]);
    assert_refused(&url_as("postgres", None, "postgres"), &["password"]);
    server.create_database("ascii", "SQL_ASCII").await.expect("a database");
    assert_refused(&format!("{}?{SETTINGS}", server.url("ascii")), &["`ascii`", "SQL_ASCII", "UTF8"]);
    server.create_user("app", "s3cret").await.expect("a user");
    assert_refused(&url_as("app", Some("s3cret"), "postgres"), &["GRANT CREATE ON DATABASE"]);
    server.ask("ALTER ROLE postgres SET statement_timeout = '1ms'").await.expect("a setting");
    assert_runs(&good);
    server.ask("ALTER ROLE postgres RESET ALL").await.expect("a setting");
    assert_refused(&url_as("app", Some("s3cret"), "postgres"), &["GRANT USAGE ON SCHEMA"]);
    let standby = server.standby().await.expect("a standby");
    assert_refused(&format!("{}?{SETTINGS}", standby.url("postgres")), &["standby"]);
    server.ask("DROP FUNCTION lockkeeper.unwatch_v1; UPDATE lockkeeper.meta SET version = 3").await.expect("newer");
    assert_refused(&good, &["newer version 3"]);
    server.ask("UPDATE lockkeeper.meta SET version = 0").await.expect("older");
    assert_refused(&good, &["of version 0", "`lockkeeper setup`"]);
    assert_eq!(server.value(LEFT).await.expect("a count"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_mariadb_that_is_not_as_it_should_be_says_why_in_one_line_and_leaves_nothing() {
    let test = "refusals::a_command_on_mariadb_that_is_not_as_it_should_be_says_why_in_one_line_and_leaves_nothing";
    if !mariadb::availability().or_skip(test) {
        return;
    }
    let server = mariadb::Setup::new().password("s3cret").start().await.expect("a server");
    let url_as = |user, password| format!("{}?{SETTINGS}", server.url_as(user, password, ""));
    let good = format!("{}?{SETTINGS}", server.url(""));
    assert_refused(&url_as("root", Some("s3cret-not")), &["password", "(error 1045)"]);
    server.create_user("app", "s3cret").await.expect("a user");
    assert_refused(&url_as("app", Some("s3cret")), &["GRANT EXECUTE ON `lockkeeper`.*"]);
    server.ask("SET GLOBAL max_statement_time = 0.001").await.expect("a setting");
    assert_runs(&good);
    server.ask("SET GLOBAL max_statement_time = 0; SET GLOBAL read_only = 1").await.expect("a setting");
    assert_refused(&good, &["only reads (`read_only`)"]);
    server.ask("SET GLOBAL read_only = 0; DROP PROCEDURE lockkeeper.unwatch_v1").await.expect("it is gone");
    server.ask("UPDATE lockkeeper.meta SET version = 3").await.expect("newer");
    assert_refused(&good, &["newer version 3"]);
    server.ask("UPDATE lockkeeper.meta SET version = 0").await.expect("older");
    assert_refused(&good, &["of version 0", "`lockkeeper setup`"]);
    assert_eq!(server.value(LEFT).await.expect("a count"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_says_what_is_wrong_with_tls_to_postgresql() {
    if !postgres::availability().or_skip("refusals::a_command_says_what_is_wrong_with_tls_to_postgresql") {
        return;
    }
    let [ours, other] = [(); 2].map(|()| Authority::new(NAME).expect("an authority"));
    let secured = postgres::Setup::new().tls(ours.server_papers()).start().await.expect("a server");
    let plain = postgres::Setup::new().start().await.expect("a server");
    let url = |server: &postgres::Server, name: &str, files: &str| {
        let address = server.address();
        format!("postgres+tls://postgres@{address}/postgres?{SETTINGS}&server_name={name}&{files}")
    };
    assert_runs(&url(&secured, NAME, &files(&ours, &ours)));
    assert_refused(&url(&secured, NAME, &files(&other, &ours)), &["`ca` names the authority"]);
    assert_refused(&url(&secured, "elsewhere.example", &files(&ours, &ours)), &["`elsewhere.example`"]);
    assert_refused(&url(&plain, NAME, &files(&ours, &ours)), &["`postgres:`"]);
    assert_refused(&format!("{}?{SETTINGS}", secured.url("postgres")), &["`postgres+tls:`"]);
    assert_eq!(secured.value(LEFT).await.expect("a count"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_says_what_is_wrong_with_tls_to_mariadb() {
    if !mariadb::availability().or_skip("refusals::a_command_says_what_is_wrong_with_tls_to_mariadb") {
        return;
    }
    let [ours, other] = [(); 2].map(|()| Authority::new(NAME).expect("an authority"));
    let secured = mariadb::Setup::new().tls(ours.server_papers()).start().await.expect("a server");
    let plain = mariadb::Setup::new().start().await.expect("a server");
    let url = |server: &mariadb::Server, name: &str, files: &str| {
        format!("mariadb+tls://root@{}/?{SETTINGS}&server_name={name}&{files}", server.address())
    };
    assert_runs(&url(&secured, NAME, &files(&ours, &ours)));
    assert_refused(&url(&secured, NAME, &files(&other, &ours)), &["`ca` names the authority"]);
    assert_refused(&url(&secured, "elsewhere.example", &files(&ours, &ours)), &["`elsewhere.example`"]);
    assert_refused(&url(&plain, NAME, &files(&ours, &ours)), &["`mysql:`"]);
    assert_refused(&format!("{}?{SETTINGS}", secured.url("")), &["`mysql+tls:`"]);
    assert_eq!(secured.value(LEFT).await.expect("a count"), "0");
}
