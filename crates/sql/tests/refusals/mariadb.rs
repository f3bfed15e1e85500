//! MariaDB.

use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::mariadb::{Server, Setup, availability, disk_availability};

use crate::locking::{
    FULL, READS_ONLY, REFUSED, SETTINGS, UNSUPPORTED, assert_locks, assert_refused, assert_told, can_run, keeper, lock,
};

/// Room for the first data of a server, and for what it takes at once.
const ROOM_BYTES: u64 = 200 << 20;

/// The most contenders that find room on a full disk: the pages that a table has hold no more of these records.
const HOLDS_MAX: usize = 2_000;

/// How often a limit of a millisecond is tried: a fast machine does in it what it should not be enough for.
const LIMITED_TIMES: usize = 5;

/// How often the harness lifts that limit at most: each try has its own millisecond.
const LIFTED_TIMES_MAX: usize = 1_000;

/// What contenders, values and sessions leave.
const LEFT: &str = "SELECT (SELECT COUNT(*) FROM lockkeeper.session) + (SELECT COUNT(*) FROM lockkeeper.contender) \
                    + (SELECT COUNT(*) FROM lockkeeper.value) + (SELECT COUNT(*) FROM lockkeeper.watch) \
                    + (SELECT COUNT(*) FROM lockkeeper.broken)";

/// How many procedures and tables of ours there are.
const MADE: &str = "SELECT (SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'lockkeeper') \
                    + (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'lockkeeper')";

fn url(server: &Server) -> String {
    format!("{}?{SETTINGS}", server.url(""))
}

async fn server() -> Server {
    Setup::new().start().await.expect("a server")
}

/// Sends a statement past a limit of a millisecond, which the statement that lifts it may exceed on a busy machine.
async fn without_limit(server: &Server, statement: &str) {
    let asked = format!("SET max_statement_time = 0; {statement}");
    for _ in 0..LIFTED_TIMES_MAX {
        match server.ask(&asked).await {
            Err(error) if error.to_string().contains("1969") => {}
            answer => return drop(answer.expect("no limit holds for it")),
        }
    }
    panic!("{statement}: the limit was not lifted {LIFTED_TIMES_MAX} times");
}

/// Makes sure that nothing of a client is left in our tables.
async fn assert_nothing_left(server: &Server) {
    assert_eq!(server.value(LEFT).await.expect("a count"), "0");
}

#[tokio::test]
async fn a_user_without_rights_is_told_the_grants_and_one_with_a_wrong_password_that_it_is_wrong() {
    if !can_run(availability()) {
        return;
    }
    let server = server().await;
    server.create_user("app", "secret").await.expect("a user");
    let url_as = |password| format!("{}?{SETTINGS}", server.url_as("app", Some(password), ""));
    let grant = r"GRANT EXECUTE ON `lockkeeper`.* TO 'app'@'%';";
    assert_refused(&url_as("secret"), REFUSED, &["lockkeeper setup", grant]).await;
    assert_refused(&url_as("guess"), REFUSED, &["'app'", "(error 1045)"]).await;
    assert_eq!(server.value(MADE).await.expect("a count"), "0");
    assert_locks(&url(&server)).await;
    assert_refused(&url_as("secret"), REFUSED, &[grant]).await;
    assert_nothing_left(&server).await;
}

#[tokio::test]
async fn a_server_that_only_reads_may_be_asked_again_and_keeps_nothing() {
    if !can_run(availability()) {
        return;
    }
    let server = server().await;
    server.ask("SET GLOBAL read_only = 1").await.expect("a setting");
    assert_refused(&url(&server), READS_ONLY, &["only reads (`read_only`)"]).await;
    assert_eq!(server.value(MADE).await.expect("a count"), "0");
    server.ask("SET GLOBAL read_only = 0").await.expect("a setting");
    assert_locks(&url(&server)).await;
    server.ask("SET GLOBAL read_only = 1").await.expect("a setting");
    assert_refused(&url(&server), READS_ONLY, &["only reads (`read_only`)"]).await;
    assert_nothing_left(&server).await;
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
    server.ask("DROP PROCEDURE lockkeeper.unwatch_v1").await.expect("it is gone");
    assert_refused(&url(&server), UNSUPPORTED, &["newer version 3", "version 2", "newer Lockkeeper"]).await;
    server.ask("UPDATE lockkeeper.meta SET version = 0").await.expect("an older version");
    assert_refused(&url(&server), UNSUPPORTED, &["of version 0", "version 2", "`lockkeeper setup`"]).await;
    assert_nothing_left(&server).await;
    keeper(&url(&server)).set_up().await.expect("it is brought up to date");
    assert_locks(&url(&server)).await;
}

#[tokio::test]
async fn a_database_of_another_program_is_not_touched() {
    if !can_run(availability()) {
        return;
    }
    let server = server().await;
    server.ask("CREATE DATABASE shop; CREATE TABLE shop.goods (id int)").await.expect("another program's");
    let judged = (lockkeeper_core::ErrorKind::InvalidConfig, lockkeeper_core::Advice::Permanent);
    assert_refused(&format!("{}&schema=shop", url(&server)), judged, &["`shop`", "another program's"]).await;
    let tables = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop'";
    assert_eq!(server.value(tables).await.expect("a count"), "1");
}

#[tokio::test]
async fn no_encoding_of_a_server_or_a_database_changes_a_name() {
    if !can_run(availability()) {
        return;
    }
    let server = Setup::new().setting("character-set-server", "latin1").start().await.expect("a server");
    server.create_database("lockkeeper", "latin1").await.expect("a database");
    let keeper = keeper(&url(&server));
    let name = "Tür-扉-\u{1f6aa}";
    let guard = lock(&keeper, name).await.expect("it is granted");
    let queues = keeper.queues("T").await.expect("the queues");
    assert_eq!(queues.iter().map(|queue| queue.as_str()).collect::<Vec<_>>(), [name]);
    guard.release().await.expect("it is given back");
    keeper.close().await.expect("it is closed");
    assert_nothing_left(&server).await;
}

#[tokio::test]
async fn a_limit_of_a_millisecond_for_statements_does_not_hold_for_locks() {
    if !can_run(availability()) {
        return;
    }
    let server = server().await;
    server.ask("SET GLOBAL max_statement_time = 0.001").await.expect("a setting");
    let slow = server.ask("SELECT SLEEP(1) = 0").await;
    assert!(!matches!(&slow, Ok(rows) if rows[0][0].as_deref() == Some("1")), "the limit holds for others: {slow:?}");
    for _ in 0..LIMITED_TIMES {
        assert_locks(&url(&server)).await;
        // The schema is made again: most of what is asked is asked then.
        without_limit(&server, "DROP DATABASE lockkeeper").await;
    }
    without_limit(&server, "SET GLOBAL max_statement_time = 0").await;
    assert_locks(&url(&server)).await;
    assert_nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_no_contender_stays() {
    if !can_run(availability().and(disk_availability)) {
        return;
    }
    let server = Setup::new().room_bytes(ROOM_BYTES).start().await.expect("a server");
    server.fill_disk().expect("filled");
    assert_refused(&url(&server), FULL, &["full", "(error 1021)"]).await;
    server.free_disk().expect("freed");
    assert_eq!(server.value(MADE).await.expect("a count"), "0");
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
    assert_told(&error, FULL, &["full"]);
    let held = guards.len().to_string();
    let count = server.value("SELECT COUNT(*) FROM lockkeeper.contender").await;
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
    const NAME: &str = "mariadb.example";
    let [ours, other] = [(); 2].map(|()| Authority::new(NAME).expect("an authority"));
    let secured = Setup::new().tls(ours.server_papers()).start().await.expect("a server");
    let plain = server().await;
    let url_of = |server: &Server, authority: &Authority, name: &str| {
        let (address, ca) = (server.address(), authority.file("ca"));
        let identity = format!("cert={}&key={}", ours.file("client").display(), ours.file("client-key").display());
        format!("mysql+tls://root@{address}/?{SETTINGS}&server_name={name}&ca={}&{identity}", ca.display())
    };
    assert_refused(&url_of(&secured, &other, NAME), REFUSED, &["`ca` names the authority"]).await;
    assert_refused(&url_of(&secured, &ours, "other.example"), REFUSED, &["`other.example`"]).await;
    assert_refused(&url_of(&plain, &ours, NAME), REFUSED, &["does not speak TLS"]).await;
    assert_refused(&url(&secured), REFUSED, &["`mysql+tls:`"]).await;
    for server in [&secured, &plain] {
        assert_eq!(server.value(MADE).await.expect("a count"), "0");
    }
    assert_locks(&url_of(&secured, &ours, NAME)).await;
    assert_nothing_left(&secured).await;
}
