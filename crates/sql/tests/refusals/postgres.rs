//! PostgreSQL, and PgBouncer before it.

use lockkeeper_core::{Advice, ErrorKind};
use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::pgbouncer::{self, Lending, PgBouncer};
use lockkeeper_faults::postgres::{Server, Setup, availability, disk_availability};

use crate::locking::{
    FULL, READS_ONLY, REFUSED, SETTINGS, UNSUPPORTED, assert_locks, assert_refused, assert_told, can_run, keeper, lock,
};

/// Room for the first data of a server, and for what it takes at once.
const ROOM_BYTES: u64 = 100 << 20;

/// The most contenders that find room on a full disk: the pages that a table has hold no more of these records.
const HOLDS_MAX: usize = 2_000;

/// What contenders, values and sessions leave.
const LEFT: &str = "SELECT (SELECT count(*) FROM lockkeeper.session) + (SELECT count(*) FROM lockkeeper.contender) \
                    + (SELECT count(*) FROM lockkeeper.value) + (SELECT count(*) FROM lockkeeper.watch) \
                    + (SELECT count(*) FROM lockkeeper.broken)";

/// Whether there is our schema.
const MADE: &str = "SELECT count(*) FROM pg_namespace WHERE nspname = 'lockkeeper'";

fn url(server: &Server) -> String {
    url_in(server, "postgres")
}

fn url_in(server: &Server, database: &str) -> String {
    format!("{}?{SETTINGS}", server.url(database))
}

async fn server() -> Server {
    Setup::new().start().await.expect("a server")
}

/// Makes sure that nothing of a client is left in our tables.
async fn assert_nothing_left(server: &Server) {
    assert_eq!(server.value(LEFT).await.expect("a count"), "0");
}

#[tokio::test]
async fn a_role_without_rights_is_told_the_grants_and_one_with_a_wrong_password_that_it_is_wrong() {
    if !can_run(availability()) {
        return;
    }
    let server = Setup::new().password("root's").start().await.expect("a server");
    server.create_user("app", "secret").await.expect("a user");
    let url_as = |password| format!("{}?{SETTINGS}", server.url_as("app", Some(password), "postgres"));
    assert_refused(&url_as("guess"), REFUSED, &["password", "28P01"]).await;
    assert_refused(&url_as("secret"), REFUSED, &["lockkeeper setup", "GRANT CREATE ON DATABASE"]).await;
    assert_eq!(server.value(MADE).await.expect("a count"), "0");
    assert_locks(&url(&server)).await;
    let grants = r#"GRANT USAGE ON SCHEMA lockkeeper TO "app"; GRANT EXECUTE"#;
    assert_refused(&url_as("secret"), REFUSED, &[grants]).await;
    assert_nothing_left(&server).await;
}

#[tokio::test]
async fn a_standby_may_be_asked_again_and_a_database_that_is_not_there_not() {
    if !can_run(availability()) {
        return;
    }
    let server = server().await;
    let standby = server.standby().await.expect("a standby");
    assert_refused(&url(&standby), READS_ONLY, &["standby"]).await;
    let judged = (ErrorKind::InvalidConfig, Advice::Permanent);
    assert_refused(&url_in(&server, "missing"), judged, &["missing", "3D000"]).await;
    assert_eq!(server.value(MADE).await.expect("a count"), "0");
}

#[tokio::test]
async fn a_database_in_another_encoding_is_refused_by_its_name() {
    if !can_run(availability()) {
        return;
    }
    let server = server().await;
    for encoding in ["SQL_ASCII", "LATIN1"] {
        let database = encoding.to_lowercase();
        server.create_database(&database, encoding).await.expect("a database");
        assert_refused(&url_in(&server, &database), UNSUPPORTED, &[&database, encoding, "UTF8"]).await;
        let made = server.ask_in(&database, MADE).await.expect("a count");
        assert_eq!(made[0][0].as_deref(), Some("0"));
    }
}

#[tokio::test]
async fn an_older_and_a_newer_schema_are_told_apart() {
    if !can_run(availability()) {
        return;
    }
    let server = server().await;
    assert_locks(&url(&server)).await;
    server.ask("UPDATE lockkeeper.meta SET version = 3").await.expect("a newer version");
    // It has what we call.
    assert_locks(&url(&server)).await;
    server.ask("DROP FUNCTION lockkeeper.unwatch_v1").await.expect("it is gone");
    assert_refused(&url(&server), UNSUPPORTED, &["newer version 3", "version 2", "newer Lockkeeper"]).await;
    server.ask("UPDATE lockkeeper.meta SET version = 0").await.expect("an older version");
    assert_refused(&url(&server), UNSUPPORTED, &["of version 0", "version 2", "`lockkeeper setup`"]).await;
    assert_nothing_left(&server).await;
    keeper(&url(&server)).set_up().await.expect("it is brought up to date");
    assert_locks(&url(&server)).await;
}

#[tokio::test]
async fn aurora_is_refused_by_its_name() {
    if !can_run(availability()) {
        return;
    }
    let server = server().await;
    server.ask("CREATE FUNCTION aurora_version() RETURNS text LANGUAGE sql AS $$SELECT '15.4'$$").await.expect("it");
    assert_refused(&url(&server), UNSUPPORTED, &["this is Aurora"]).await;
    assert_eq!(server.value(MADE).await.expect("a count"), "0");
}

#[tokio::test]
async fn a_limit_of_a_millisecond_for_statements_does_not_hold_for_locks() {
    if !can_run(availability()) {
        return;
    }
    let server = server().await;
    server.ask("ALTER ROLE postgres SET statement_timeout = '1ms'").await.expect("a setting");
    server.ask("ALTER ROLE postgres SET lock_timeout = '1ms'").await.expect("a setting");
    let limits = server.value("SELECT setconfig FROM pg_db_role_setting").await.expect("the role's settings");
    assert_eq!(limits, "{statement_timeout=1ms,lock_timeout=1ms}");
    assert_locks(&url(&server)).await;
    server.ask("DROP SCHEMA lockkeeper CASCADE").await.expect("it is gone");
    if can_run(pgbouncer::availability()) {
        let pooler = PgBouncer::start(&server, Lending::Transaction, 2).await.expect("a pooler");
        assert_locks(&format!("{}?{SETTINGS}", pooler.url("postgres"))).await;
        server.ask("ALTER ROLE postgres RESET ALL").await.expect("no limit");
        assert_nothing_left(&server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_no_contender_stays() {
    if !can_run(availability().and(disk_availability)) {
        return;
    }
    let server = Setup::new().room_bytes(ROOM_BYTES).start().await.expect("a server");
    server.fill_disk().expect("filled");
    assert_refused(&url(&server), FULL, &["53100"]).await;
    assert_eq!(server.value(MADE).await.expect("a count"), "0");
    server.free_disk().expect("freed");
    assert_locks(&url(&server)).await;
    let keeper = keeper(&url(&server));
    let mut guards = vec![lock(&keeper, "first").await.expect("there is room")];
    server.fill_disk().expect("filled");
    let error = loop {
        assert!(guards.len() < HOLDS_MAX, "the disk was never full");
        match lock(&keeper, &format!("door-{:0>150}", guards.len())).await {
            Ok(guard) => guards.push(guard),
            Err(error) => break error,
        }
    };
    assert_told(&error, FULL, &["53100"]);
    let held = guards.len().to_string();
    let count = server.value("SELECT count(*) FROM lockkeeper.contender").await;
    assert_eq!(count.expect("a count"), held, "the one that was refused is not there");
    server.free_disk().expect("freed");
    for guard in guards {
        guard.release().await.expect("it is given back");
    }
    keeper.close().await.expect("it is closed");
    assert_nothing_left(&server).await;
}

#[tokio::test]
async fn what_is_wrong_with_tls_is_told_and_trying_again_is_of_no_use() {
    if !can_run(availability()) {
        return;
    }
    const NAME: &str = "postgres.example";
    let [ours, other] = [(); 2].map(|()| Authority::new(NAME).expect("an authority"));
    let secured = Setup::new().tls(ours.server_papers()).start().await.expect("a server");
    let plain = server().await;
    let url_of = |server: &Server, authority: &Authority, name: &str| {
        let (address, ca) = (server.address(), authority.file("ca"));
        let identity = format!("cert={}&key={}", ours.file("client").display(), ours.file("client-key").display());
        format!(
            "postgres+tls://postgres@{address}/postgres?{SETTINGS}&server_name={name}&ca={}&{identity}",
            ca.display()
        )
    };
    assert_refused(&url_of(&secured, &other, NAME), REFUSED, &["`ca` names the authority"]).await;
    assert_refused(&url_of(&secured, &ours, "other.example"), REFUSED, &["`other.example`"]).await;
    assert_refused(&url_of(&plain, &ours, NAME), REFUSED, &["does not speak TLS"]).await;
    assert_refused(&url(&secured), REFUSED, &["`postgres+tls:`"]).await;
    for server in [&secured, &plain] {
        assert_eq!(server.value(MADE).await.expect("a count"), "0");
    }
    assert_locks(&url_of(&secured, &ours, NAME)).await;
    assert_nothing_left(&secured).await;
}
