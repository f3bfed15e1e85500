//! Databases that are not as they should be: what a program is told, in one line, and that nothing is left there.

use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Advice, Error, ErrorKind};
use lockkeeper_faults::pgbouncer::{self, Lending, PgBouncer};
use lockkeeper_recipes::retry::RetryPolicy;
use lockkeeper_recipes::{Keeper, MutexGuard};

use super::server::{Kind, Need, SETTINGS, Server, can_run, each, each_with, server, server_with};
use crate::SqlBackend;

/// What a refusal is to a program: its kind, and whether trying again can help.
type Judged = (ErrorKind, Advice);

/// The settings or rights must change.
pub(super) const REFUSED: Judged = (ErrorKind::Refused, Advice::Permanent);

/// The server, or its schema, must change.
const UNSUPPORTED: Judged = (ErrorKind::Unsupported, Advice::Permanent);

/// The URL must change.
const MISPLACED: Judged = (ErrorKind::InvalidConfig, Advice::Permanent);

/// Another server may serve soon, or this one.
const READS_ONLY: Judged = (ErrorKind::ConnectionLost, Advice::Transient);

/// There may be room soon.
const FULL: Judged = (ErrorKind::LimitReached, Advice::Transient);

/// Room for the first data of a server, and for what it takes at once.
const ROOM_BYTES: u64 = 200 << 20;

/// The most contenders that find room on a full disk: the pages that a table has hold no more of these records.
const HOLDS_MAX: usize = 2_000;

/// How often a limit of a millisecond is tried: a fast machine does in it what it should not be enough for.
const LIMITED_TIMES: usize = 5;

/// How often the harness lifts that limit at most: each try has its own millisecond.
const LIFTED_TIMES_MAX: usize = 1_000;

/// What contenders, values and sessions leave.
const LEFT: &str = "SELECT (SELECT count(*) FROM lockkeeper.session) + (SELECT count(*) FROM lockkeeper.contender) \
                    + (SELECT count(*) FROM lockkeeper.value) + (SELECT count(*) FROM lockkeeper.watch) \
                    + (SELECT count(*) FROM lockkeeper.broken)";

const MADE: [&str; 2] = [
    "SELECT count(*) FROM pg_namespace WHERE nspname = 'lockkeeper'",
    "SELECT (SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'lockkeeper') \
     + (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'lockkeeper')",
];

/// A program's keeper, which tries nothing again.
fn keeper(url: &str) -> Keeper {
    let backend = SqlBackend::open(&url.parse().expect("a URL")).expect("a good URL");
    Keeper::builder(Arc::new(backend)).retry(RetryPolicy::none()).build()
}

async fn lock(keeper: &Keeper, name: &str) -> Result<MutexGuard, Error> {
    soon("an answer", keeper.mutex(name).expect("a name").lock()).await
}

pub(super) async fn assert_locks(url: &str) {
    let keeper = keeper(url);
    let guard = lock(&keeper, "door").await.unwrap_or_else(|error| panic!("{url}: {error:#}"));
    guard.release().await.expect("it is given back");
    keeper.close().await.expect("it is closed");
}

/// Makes sure that a program that locks there is told this, in one line that says all these words.
pub(super) async fn assert_refused(url: &str, judged: Judged, says: &[&str]) {
    let keeper = keeper(url);
    let error = lock(&keeper, "door").await.expect_err(url);
    assert_told(&error, judged, says);
    // There may be no session to close.
    let _ = soon("an end", keeper.close()).await;
}

/// Makes sure that an error is one line that says all these words.
fn assert_told(error: &Error, judged: Judged, says: &[&str]) {
    let told = format!("{error:#}");
    assert_eq!((error.kind(), error.advice()), judged, "{told}");
    assert!(!told.contains('\n'), "{told}");
    for text in says {
        assert!(told.contains(text), "`{text}` is not in: {told}");
    }
}

impl Server {
    /// Makes sure that nothing of ours was made there.
    pub(super) async fn assert_nothing_made(&self) {
        assert_eq!(self.value(self.either(MADE[0], MADE[1])).await.expect("a count"), "0");
    }

    /// Makes sure that nothing of a client is left in our tables.
    pub(super) async fn assert_nothing_left(&self) {
        assert_eq!(self.value(LEFT).await.expect("a count"), "0");
    }
}

#[tokio::test]
async fn a_role_without_rights_is_told_the_grants_and_one_with_a_wrong_password_that_it_is_wrong() {
    for server in each_with(Need::Password).await {
        let app = server.url_of_user("app").await;
        let (make, grants) = server.either(
            ("GRANT CREATE ON DATABASE", r#"GRANT USAGE ON SCHEMA lockkeeper TO "app"; GRANT EXECUTE"#),
            ("GRANT EXECUTE ON", r"GRANT EXECUTE ON `lockkeeper`.* TO 'app'@'%';"),
        );
        assert_refused(&app, REFUSED, &["lockkeeper setup", make]).await;
        let wrong = server.either("28P01", "(error 1045)");
        for (guess, word) in [(Some("guess"), wrong), (None, "password")] {
            assert_refused(&server.url_as("app", guess), REFUSED, &["password", word]).await;
        }
        server.assert_nothing_made().await;
        assert_locks(&server.url()).await;
        assert_refused(&app, REFUSED, &[grants]).await;
        server.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn a_server_that_only_reads_may_be_asked_again_and_keeps_nothing() {
    for server in each().await {
        let reads = |reads: &str| {
            let role = format!("ALTER ROLE postgres SET default_transaction_read_only = {reads}");
            server.either(role, format!("SET GLOBAL read_only = {reads}"))
        };
        let says = server.either("`default_transaction_read_only`", "only reads (`read_only`)");
        server.ask(&reads("on")).await.expect("a setting");
        assert_refused(&server.url(), READS_ONLY, &[says]).await;
        server.assert_nothing_made().await;
        let writes =
            server.either("BEGIN READ WRITE; ALTER ROLE postgres RESET ALL; COMMIT", "SET GLOBAL read_only = 0");
        server.ask(writes).await.expect("a setting");
        assert_locks(&server.url()).await;
        server.ask(&reads("on")).await.expect("a setting");
        assert_refused(&server.url(), READS_ONLY, &[says]).await;
        server.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_or_in_another_encoding_is_refused_by_its_name() {
    let Some(server) = server(Kind::Postgres).await else { return };
    let url_in = |database: &str| format!("{}?{SETTINGS}", server.postgres().url(database));
    assert_refused(&url_in("missing"), MISPLACED, &["missing", "3D000"]).await;
    for encoding in ["SQL_ASCII", "LATIN1"] {
        let database = encoding.to_lowercase();
        server.postgres().create_database(&database, encoding).await.expect("a database");
        assert_refused(&url_in(&database), UNSUPPORTED, &[&database, encoding, "UTF8"]).await;
        let counted = server.postgres().ask_in(&database, MADE[0]).await.expect("a count");
        assert_eq!(counted[0][0].as_deref(), Some("0"));
    }
}

#[tokio::test]
async fn no_encoding_of_a_server_or_a_database_changes_a_name() {
    let need = Need::Settings([&[], &[("character-set-server", "latin1")]]);
    let Some(server) = server_with(Kind::Mariadb, need).await else { return };
    server.ask("CREATE DATABASE lockkeeper CHARACTER SET 'latin1'").await.expect("a database");
    let keeper = keeper(&server.url());
    let name = "Tür-扉-\u{1f6aa}";
    let guard = lock(&keeper, name).await.expect("it is granted");
    let queues = keeper.admin().queues("T").await.expect("the queues");
    assert_eq!(queues.iter().map(|queue| queue.as_str()).collect::<Vec<_>>(), [name]);
    guard.release().await.expect("it is given back");
    keeper.close().await.expect("it is closed");
    server.assert_nothing_left().await;
}

#[tokio::test]
async fn an_older_and_a_newer_schema_are_told_apart() {
    for server in each().await {
        let url = server.url();
        assert_locks(&url).await;
        server.ask("UPDATE lockkeeper.meta SET version = 3").await.expect("a newer version");
        // It has what we call.
        assert_locks(&url).await;
        let kind = server.either("FUNCTION", "PROCEDURE");
        server.ask(&format!("DROP {kind} lockkeeper.unwatch_v1")).await.expect("it is gone");
        assert_refused(&url, UNSUPPORTED, &["newer version 3", "version 2", "newer Lockkeeper"]).await;
        server.ask("UPDATE lockkeeper.meta SET version = 0").await.expect("an older version");
        assert_refused(&url, UNSUPPORTED, &["of version 0", "version 2", "`lockkeeper setup`"]).await;
        server.assert_nothing_left().await;
        keeper(&url).admin().set_up().await.expect("it is brought up to date");
        assert_locks(&url).await;
    }
}

#[tokio::test]
async fn a_database_of_another_program_is_not_touched() {
    for server in each().await {
        let (shop, count) = server.either(
            (
                "CREATE SCHEMA shop; CREATE FUNCTION shop.buy() RETURNS int LANGUAGE sql AS 'SELECT 1'",
                "SELECT count(*) FROM pg_proc WHERE pronamespace = 'shop'::regnamespace",
            ),
            (
                "CREATE DATABASE shop; CREATE TABLE shop.goods (id int)",
                "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop'",
            ),
        );
        server.ask(shop).await.expect("another program's");
        assert_refused(&format!("{}&schema=shop", server.url()), MISPLACED, &["`shop`", "another program's"]).await;
        assert_eq!(server.value(count).await.expect("a count"), "1");
    }
}

/// What a server may have by default, and our statements must not: each by itself.
const DEFAULTS_POSTGRES: [&str; 7] = [
    "default_transaction_isolation = 'serializable'",
    "standard_conforming_strings = off",
    "bytea_output = 'escape'",
    "extra_float_digits = -15",
    "array_nulls = off",
    "transform_null_equals = on",
    "search_path = 'nowhere'",
];
const DEFAULTS_MARIADB: [&str; 9] = [
    "completion_type = 1",
    "completion_type = 2",
    "autocommit = 0",
    "sql_safe_updates = 1",
    "sql_select_limit = 1",
    "max_join_size = 100",
    "sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
    "tx_read_only = 1",
    "tx_isolation = 'SERIALIZABLE'",
];

#[tokio::test]
async fn no_setting_that_a_server_has_by_default_changes_what_our_statements_do() {
    for server in each().await {
        for setting in server.either(&DEFAULTS_POSTGRES[..], &DEFAULTS_MARIADB) {
            println!("{setting}");
            let (name, _) = setting.split_once(' ').expect("a name and a value");
            let set = server.either(format!("ALTER ROLE postgres SET {setting}"), format!("SET GLOBAL {setting}"));
            let reset =
                server.either(format!("ALTER ROLE postgres RESET {name}"), format!("SET GLOBAL {name} = DEFAULT"));
            server.ask(&set).await.expect("a setting");
            // The schema is made too.
            let [first, second] = [keeper(&server.url()), keeper(&server.url())];
            let guard = lock(&first, "door").await.expect("it is free");
            let waiting = lock(&second, "door");
            let given_back = async {
                server.until_it_says("SELECT count(*) FROM lockkeeper.contender", "2").await;
                guard.release().await
            };
            let (granted, given_back) = tokio::join!(waiting, given_back);
            given_back.expect("it was held");
            granted.expect("it is given back").release().await.expect("it was held");
            for keeper in [first, second] {
                soon("the end", keeper.close()).await.expect("it is closed");
            }
            server.ask(&reset).await.expect("a setting");
            server.assert_nothing_left().await;
            server.wipe().await;
        }
    }
}

/// Sends a statement past a limit of a millisecond, which the statement that lifts it may exceed on a busy machine.
async fn without_limit(server: &Server, statement: &str) {
    let lift = server.either("SET statement_timeout = 0", "SET max_statement_time = 0");
    let asked = format!("{lift}; {statement}");
    for _ in 0..LIFTED_TIMES_MAX {
        match server.ask(&asked).await {
            Err(error) if error.to_string().contains("1969") => {}
            answer => return drop(answer.expect("no limit holds for it")),
        }
    }
    panic!("{statement}: the limit was not lifted {LIFTED_TIMES_MAX} times");
}

#[tokio::test]
async fn a_limit_of_a_millisecond_for_statements_does_not_hold_for_locks() {
    for server in each().await {
        if server.kind() == Kind::Postgres {
            for limit in ["statement_timeout", "lock_timeout"] {
                server.ask(&format!("ALTER ROLE postgres SET {limit} = '1ms'")).await.expect("a setting");
            }
            let limits = server.value("SELECT setconfig FROM pg_db_role_setting").await.expect("the role's settings");
            assert_eq!(limits, "{statement_timeout=1ms,lock_timeout=1ms}");
        } else {
            server.ask("SET GLOBAL max_statement_time = 0.001").await.expect("a setting");
            let slow = server.ask("SELECT SLEEP(1) = 0").await;
            let is_slow = matches!(&slow, Ok(rows) if rows[0][0].as_deref() == Some("1"));
            assert!(!is_slow, "the limit holds for others: {slow:?}");
        }
        for _ in 0..LIMITED_TIMES {
            assert_locks(&server.url()).await;
            // The schema is recreated: most of what is asked is asked then.
            without_limit(&server, server.either("DROP SCHEMA lockkeeper CASCADE", "DROP DATABASE lockkeeper")).await;
        }
        if server.kind() == Kind::Postgres && can_run(pgbouncer::availability()) {
            let pooler = PgBouncer::start(server.postgres(), Lending::Transaction, 2).await.expect("a pooler");
            assert_locks(&format!("{}?{SETTINGS}", pooler.url("postgres"))).await;
        }
        let lift = server.either("ALTER ROLE postgres RESET ALL", "SET GLOBAL max_statement_time = 0");
        without_limit(&server, lift).await;
        assert_locks(&server.url()).await;
        server.assert_nothing_left().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_no_contender_stays() {
    for server in each_with(Need::Room(ROOM_BYTES)).await {
        let full = server.either("53100", "full");
        server.fill_disk();
        assert_refused(&server.url(), FULL, &[full]).await;
        server.free_disk();
        server.assert_nothing_made().await;
        assert_locks(&server.url()).await;
        let keeper = keeper(&server.url());
        let mut guards = vec![lock(&keeper, "first").await.expect("there is room")];
        server.fill_disk();
        let error = loop {
            assert!(guards.len() < HOLDS_MAX, "the disk was never full");
            match lock(&keeper, &format!("door-{:0>150}", guards.len())).await {
                Ok(guard) => guards.push(guard),
                Err(error) => break error,
            }
        };
        assert_told(&error, FULL, &[full]);
        let held = guards.len().to_string();
        let count = server.value("SELECT count(*) FROM lockkeeper.contender").await;
        assert_eq!(count.expect("a count"), held, "the one that was refused is not there");
        server.free_disk();
        for guard in guards {
            guard.release().await.expect("it is given back");
        }
        keeper.close().await.expect("it is closed");
        server.assert_nothing_left().await;
    }
}
