//! Findings of an examination on real servers, over which rights and through what.

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::Severity::{Error, Note, Warning};
use lockkeeper_core::{Backend, Finding, Scrutiny, Session, Severity};
use lockkeeper_faults::mariadb::{Setup, galera_availability};
use lockkeeper_faults::wait;

use super::server::{Kind, Need, Server, can_run, each_with, server_with};
use crate::SqlBackend;
use crate::statement::RowKind;

type Expected = (Severity, &'static str);

/// What is true of a server that stands alone.
const ALONE: Expected = (Note, "has no standby");

/// The facts that are judged on each kind.
const FACTS_POSTGRES: &str = "clock_us connections dead_contender dead_queue dead_session fsync \
    full_page_writes is_aurora is_settled \
    listening max_connections owner schema_version sees_others server_encoding server_version standbys \
    standbys_in_step superuser_reserved_connections synchronous_commit synchronous_standby_names timeout_max_ms \
    wait_ms instance prepared_s";
const FACTS_MARIADB: &str = "binlog_format clock_us history innodb_flush_log_at_trx_commit innodb_read_only \
    is_settled log_bin \
    max_connections read_only rpl_semi_sync_master_status schema_version slaves_connected sync_binlog \
    threads_connected version wait_ms";

async fn examine(url: &str) -> Result<Vec<Finding>, lockkeeper_core::Error> {
    let backend = SqlBackend::open(&url.parse().expect("a URL")).expect("a good URL");
    let found = soon("the examination", backend.admin().examine(Scrutiny::Full)).await;
    assert_eq!(backend.admin().examine(Scrutiny::Brief).await.expect("it asks nothing"), []);
    backend.close().await.expect("it ends");
    found
}

async fn sessions(url: &str, count: usize) -> Vec<(SqlBackend, std::sync::Arc<dyn Session>)> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        let backend = SqlBackend::open(&url.parse().expect("a URL")).expect("a good URL");
        let session = soon("a session", backend.session()).await.expect("a session");
        sessions.push((backend, session));
    }
    sessions
}

impl Server {
    /// Asserts that these are found and nothing else, behind a note that says what there is.
    async fn assert_found(&self, expected: &[Expected]) {
        self.assert_found_at(&self.url(), expected).await;
    }

    async fn assert_found_at(&self, url: &str, expected: &[Expected]) {
        let mut found = examine(url).await.expect("it is examined");
        // An examination makes no schema, and says where there is none.
        if found.iter().any(|finding| finding.to_string().contains("is not made yet")) {
            for (backend, session) in sessions(url, 1).await {
                session.close().await.expect("it ends");
                backend.close().await.expect("it ends");
            }
            found = examine(url).await.expect("it is examined");
        }
        let (first, others) = found.split_first().expect("it says what there is");
        let about = self.either("a primary of PostgreSQL 15", "MariaDB 10.11");
        assert!(first.severity == Note && first.what.contains(about), "{first}");
        let is_one = |(finding, (severity, word)): (&Finding, &Expected)| {
            finding.severity == *severity && finding.to_string().contains(word)
        };
        assert!(others.len() == expected.len() && others.iter().zip(expected).all(is_one), "{expected:?}: {others:?}");
    }

    pub(super) async fn until_it_says(&self, sql: &str, value: &str) {
        let says = async || self.value(sql).await.is_ok_and(|said| said == value).then_some(());
        wait::until(sql, SOON, says).await.expect("it says so");
    }
}

#[tokio::test]
async fn a_server_in_order_has_notes_alone_and_nothing_is_left_there() {
    for server in each_with(Need::Durability).await {
        server.assert_found(&[ALONE]).await;
        let count = "SELECT (SELECT count(*) FROM lockkeeper.session) + (SELECT count(*) FROM lockkeeper.queue)";
        assert_eq!(server.value(count).await.expect("a count"), "0");
    }
}

#[tokio::test]
async fn a_server_tells_each_fact_that_is_judged() {
    for server in each_with(Need::Nothing).await {
        let facts = server.connect(1).await.ok("examine", Vec::new()).await;
        assert!(facts.iter().all(|row| row.says(RowKind::Fact)), "{facts:?}");
        for name in server.either(FACTS_POSTGRES, FACTS_MARIADB).split(' ') {
            let fact = facts.iter().find(|row| row.text.as_deref() == Some(name));
            // No session has told its instance, and there is no prepared transaction.
            let is_known = fact.unwrap_or_else(|| panic!("{name} is not told: {facts:?}")).ask.is_some();
            assert_eq!(is_known, !matches!(name, "instance" | "prepared_s"), "{name}");
        }
    }
}

#[tokio::test]
async fn a_user_that_may_execute_the_functions_alone_finds_what_others_find() {
    let weak = Need::Settings([&[("full_page_writes", "off")], &[("innodb-flush-log-at-trx-commit", "0")]]);
    for server in each_with(weak).await {
        let (found, grants) = server.either(
            (
                "full_page_writes",
                "GRANT USAGE ON SCHEMA lockkeeper TO app; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lockkeeper TO app",
            ),
            ("innodb_flush_log_at_trx_commit", "GRANT EXECUTE ON lockkeeper.* TO app@'%'"),
        );
        server.assert_found(&[(Warning, found), ALONE]).await;
        let app = server.url_of_user("app").await;
        server.ask(grants).await.expect("rights");
        server.assert_found_at(&app, &[(Warning, found), ALONE]).await;
    }
}

#[tokio::test]
async fn what_the_maker_of_the_schema_may_not_see_is_told_with_the_grant_that_helps() {
    for server in each_with(Need::Durability).await {
        let owner = server.url_of_user("owner").await;
        let (make, grant) = server.either(
            ("GRANT CREATE ON DATABASE postgres TO owner", r#"GRANT pg_read_all_stats TO "owner";"#),
            ("GRANT ALL ON lockkeeper.* TO owner@'%'", "GRANT PROCESS ON *.* TO 'owner'@'%';"),
        );
        server.ask(make).await.expect("rights");
        server.assert_found_at(&owner, &[(Note, grant), ALONE]).await;
        server.ask(grant).await.expect("the grant");
        server.assert_found_at(&owner, &[ALONE]).await;
    }
}

#[tokio::test]
async fn a_standby_that_no_commit_waits_for_is_found_and_a_standby_itself_is_refused() {
    for server in each_with(Need::Standby).await {
        server.assert_found(&[ALONE]).await;
        let standby = server.standby().await;
        server.assert_found(&[(Warning, server.either("synchronous_standby_names", "asynchronous"))]).await;
        // A replica's superuser may write in spite of `read_only`, and others may not: all are refused.
        let refusal = examine(&standby.url()).await.expect_err("it only reads").to_string();
        assert!(refusal.contains(server.either("the server is a standby", "read_only")), "{refusal}");
        if server.kind() == Kind::Mariadb {
            continue;
        }
        server.ask("ALTER SYSTEM SET synchronous_standby_names = '*'").await.expect("a setting");
        server.ask("SELECT pg_reload_conf()").await.expect("it is read");
        server.until_it_says("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", "1").await;
        server.assert_found(&[]).await;
        drop(standby);
        server.until_it_says("SELECT count(*) FROM pg_stat_replication", "0").await;
        server.assert_found(&[(Error, "no lock can be had")]).await;
    }
}

#[tokio::test]
async fn a_node_of_galera_is_found_where_it_is_let() {
    if !can_run(galera_availability()) {
        return;
    }
    let server = Server::Mariadb(Setup::new().durable().galera().start().await.expect("a node"));
    let expected = [(Warning, "nodes of Galera"), ALONE, (Note, "a node of Galera tells nothing")];
    server.assert_found_at(&format!("{}&galera=one-node", server.url()), &expected).await;
}

#[tokio::test]
async fn what_our_tables_say_is_found() {
    let Some(server) = server_with(Kind::Postgres, Need::Durability).await else { return };
    server.assert_found(&[ALONE]).await;
    let listen = "INSERT INTO lockkeeper.session (id, epoch, beat, timeout_ms, owner, listening) \
                  SELECT gen_random_uuid(), 1, 1, 20000, 'a test', true FROM generate_series(1, 128)";
    server.ask(listen).await.expect("sessions");
    server.ask("UPDATE lockkeeper.state SET instance = 'other', timeout_max_ms = 30000").await.expect("another state");
    let expected = [(Warning, "128 sessions listen, which is the limit"), ALONE, (Warning, "30s")];
    server.assert_found(&expected).await;
    let newer = "TRUNCATE lockkeeper.session; UPDATE lockkeeper.state SET instance = NULL; \
                 UPDATE lockkeeper.meta SET version = 3";
    server.ask(newer).await.expect("3");
    server.assert_found(&[(Note, "newer"), ALONE]).await;
}

#[tokio::test]
async fn a_clock_that_differs_and_transactions_that_are_old_by_it_are_found_on_postgresql() {
    let Some(server) = server_with(Kind::Postgres, Need::Clock).await else { return };
    server.assert_found(&[ALONE]).await;
    let prepared = "CREATE TABLE other (it int); BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION 'p'";
    server.ask(prepared).await.expect("a prepared transaction");
    let looking = server.ask("SELECT count(*) FROM lockkeeper.queue; SELECT pg_sleep(600)");
    let asleep = server.ask("SELECT pg_sleep(600)");
    let examining = async {
        server.until_it_says("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'", "2").await;
        server.move_clock(60_000).await;
        let expected = [
            (Warning, "has used our tables for 60"),
            (Warning, "goes on for 60"),
            (Warning, "prepared transaction waits for 60"),
            ALONE,
            (Warning, "ahead of"),
        ];
        server.assert_found(&expected).await;
        let ending = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        assert_eq!(server.ask(ending).await.expect("an end").len(), 2, "they were under way until then");
    };
    let _ = tokio::join!(looking, asleep, examining);
}

#[tokio::test]
async fn a_clock_that_differs_and_a_transaction_that_is_old_by_it_are_found_on_mariadb() {
    let Some(server) = server_with(Kind::Mariadb, Need::Clock).await else { return };
    // It outlives its connection.
    let prepared = "CREATE DATABASE other; CREATE TABLE other.it (it int) ENGINE=InnoDB; XA START 'x'; \
                    INSERT INTO other.it VALUES (1); XA END 'x'; XA PREPARE 'x'";
    server.ask(prepared).await.expect("a prepared transaction");
    // The server shows its transactions as they were at the last look, if that is less than 0.1 s ago.
    server.assert_found(&[ALONE]).await;
    server.move_clock(60_000).await;
    let expected = [ALONE, (Warning, "a prepared transaction goes on for 60"), (Warning, "ahead of")];
    server.assert_found(&expected).await;
}

#[tokio::test]
async fn connections_that_run_out_are_found() {
    // Three of PostgreSQL's are kept for superusers, such as the one that examines.
    let few = [&[("max_connections", "13"), ("autovacuum", "off")][..], &[("max-connections", "10")]];
    for server in each_with(Need::Settings(few)).await {
        let eight = sessions(&server.url(), 8).await;
        server.assert_found(&[ALONE]).await;
        let more = sessions(&server.url(), server.either(2, 1)).await;
        let left = (Warning, "0 of the server's 10 connections are left");
        server.assert_found(&server.either([left, ALONE], [ALONE, left])).await;
        drop((eight, more));
    }
}

#[tokio::test]
async fn dead_rows_that_no_vacuum_removes_are_found() {
    let need = Need::Settings([&[("autovacuum", "off")], &[]]);
    let Some(server) = server_with(Kind::Postgres, need).await else { return };
    server.assert_found(&[ALONE]).await;
    let fill =
        "INSERT INTO lockkeeper.queue (name, part, last) SELECT 'q' || n, 0, n FROM generate_series(1, 100001) n";
    server.ask(fill).await.expect("queues");
    server.ask("DELETE FROM lockkeeper.queue").await.expect("no queues");
    let dead = "SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'lockkeeper.queue'::regclass";
    server.until_it_says(dead, "100001").await;
    server.assert_found(&[ALONE, (Warning, "`queue` has 100001 dead rows")]).await;
    server.ask("VACUUM lockkeeper.queue").await.expect("a vacuum");
    server.assert_found(&[ALONE]).await;
}
