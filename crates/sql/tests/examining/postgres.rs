//! PostgreSQL, alone, with a standby and behind a pooler.

use lockkeeper_conformance::SOON;
use lockkeeper_core::Severity::{Error, Note, Warning};
use lockkeeper_faults::pgbouncer::{self, Lending, PgBouncer};
use lockkeeper_faults::postgres::{Server, Setup, availability, clock_availability};
use lockkeeper_faults::wait;

use crate::finding::{Expected, assert_found, can_run, examine, sessions};

const ABOUT: &str = "a primary of PostgreSQL 15";

/// What is true of a server that stands alone.
const ALONE: Expected = (Note, "has no standby");

/// What is true of one of the harness beside that, unless it is durable.
const FORGETFUL: Expected = (Warning, "fsync off");

fn url(server: &Server) -> String {
    server.url("postgres")
}

#[tokio::test]
async fn a_server_in_order_has_notes_alone_and_nothing_is_left_there() {
    if !can_run(availability()) {
        return;
    }
    let server = Setup::new().durable().start().await.expect("a server");
    assert_found(&url(&server), ABOUT, &[ALONE]).await;
    let count = "SELECT (SELECT count(*) FROM lockkeeper.session) + (SELECT count(*) FROM lockkeeper.queue)";
    assert_eq!(server.value(count).await.expect("a count"), "0");
}

#[tokio::test]
async fn a_role_that_may_execute_the_functions_alone_finds_what_others_find() {
    if !can_run(availability()) {
        return;
    }
    let server = Setup::new().setting("full_page_writes", "off").start().await.expect("a server");
    let expected = [FORGETFUL, (Warning, "full_page_writes"), ALONE];
    assert_found(&url(&server), ABOUT, &expected).await;
    server.create_user("app", "secret").await.expect("a user");
    let grants = "GRANT USAGE ON SCHEMA lockkeeper TO app; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lockkeeper TO app";
    server.ask(grants).await.expect("rights");
    assert_found(&server.url_as("app", Some("secret"), "postgres"), ABOUT, &expected).await;
}

#[tokio::test]
async fn what_the_owner_of_the_schema_may_not_see_is_told_with_the_grant_that_helps() {
    if !can_run(availability()) {
        return;
    }
    let server = Setup::new().durable().start().await.expect("a server");
    server.create_user("owner", "secret").await.expect("a user");
    server.ask("GRANT CREATE ON DATABASE postgres TO owner").await.expect("rights");
    let url = server.url_as("owner", Some("secret"), "postgres");
    assert_found(&url, ABOUT, &[(Note, r#"GRANT pg_read_all_stats TO "owner";"#), ALONE]).await;
    server.ask(r#"GRANT pg_read_all_stats TO "owner";"#).await.expect("the grant");
    assert_found(&url, ABOUT, &[ALONE]).await;
}

#[tokio::test]
async fn a_standby_that_no_commit_waits_for_is_found_and_a_standby_itself_is_refused() {
    if !can_run(availability()) {
        return;
    }
    let server = Setup::new().durable().start().await.expect("a server");
    assert_found(&url(&server), ABOUT, &[ALONE]).await;
    let standby = server.standby().await.expect("a standby");
    assert_found(&url(&server), ABOUT, &[(Warning, "synchronous_standby_names")]).await;
    let refusal = examine(&url(&standby)).await.expect_err("it only reads");
    assert!(refusal.to_string().contains("the server is a standby"), "{refusal}");
    server.ask("ALTER SYSTEM SET synchronous_standby_names = '*'").await.expect("a setting");
    server.ask("SELECT pg_reload_conf()").await.expect("it is read");
    let in_step = async || {
        let count = server.value("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").await;
        count.is_ok_and(|count| count == "1").then_some(())
    };
    wait::until("the standby", SOON, in_step).await.expect("it is in step");
    assert_found(&url(&server), ABOUT, &[]).await;
    drop(standby);
    let gone = async || {
        let count = server.value("SELECT count(*) FROM pg_stat_replication").await;
        count.is_ok_and(|count| count == "0").then_some(())
    };
    wait::until("its end", SOON, gone).await.expect("it is gone");
    assert_found(&url(&server), ABOUT, &[(Error, "no lock can be had")]).await;
}

#[tokio::test]
async fn a_pooler_is_found() {
    if !can_run(pgbouncer::availability()) {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let pooler = PgBouncer::start(&server, Lending::Transaction, 4).await.expect("a pooler");
    assert_found(&pooler.url("postgres"), ABOUT, &[FORGETFUL, ALONE, (Note, "pooler")]).await;
}

#[tokio::test]
async fn what_our_tables_say_is_found() {
    if !can_run(availability()) {
        return;
    }
    let server = Setup::new().durable().start().await.expect("a server");
    assert_found(&url(&server), ABOUT, &[ALONE]).await;
    let listen = "INSERT INTO lockkeeper.session (id, epoch, beat, timeout_ms, owner, listening) \
                  SELECT gen_random_uuid(), 1, 1, 20000, 'a test', true FROM generate_series(1, 128)";
    server.ask(listen).await.expect("sessions");
    server.ask("UPDATE lockkeeper.state SET instance = 'other', timeout_max_ms = 30000").await.expect("another state");
    let expected = [(Warning, "128 sessions listen, which is the limit"), ALONE, (Warning, "30s")];
    assert_found(&url(&server), ABOUT, &expected).await;
    server
        .ask(
            "TRUNCATE lockkeeper.session; UPDATE lockkeeper.state SET instance = NULL; \
             UPDATE lockkeeper.meta SET version = 3",
        )
        .await
        .expect("3");
    assert_found(&url(&server), ABOUT, &[(Note, "newer"), ALONE]).await;
}

#[tokio::test]
async fn a_clock_that_differs_and_the_transactions_that_are_old_by_it_are_found() {
    if !can_run(availability()) || !can_run(clock_availability()) {
        return;
    }
    let server = Setup::new().durable().setting("max_prepared_transactions", "1").movable_clock();
    let server = server.start().await.expect("a server");
    assert_found(&url(&server), ABOUT, &[ALONE]).await;
    let prepared = "CREATE TABLE other (it int); BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION 'p'";
    server.ask(prepared).await.expect("a prepared transaction");
    let looking = server.ask("SELECT count(*) FROM lockkeeper.queue; SELECT pg_sleep(600)");
    let asleep = server.ask("SELECT pg_sleep(600)");
    let examining = async {
        let both = async || {
            let count = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            server.value(count).await.is_ok_and(|count| count == "2").then_some(())
        };
        wait::until("both", SOON, both).await.expect("they are under way");
        server.move_clock(60_000).await.expect("its clock moves");
        let expected = [
            (Warning, "has used our tables for 60"),
            (Warning, "goes on for 60"),
            (Warning, "prepared transaction waits for 60"),
            ALONE,
            (Warning, "ahead of"),
        ];
        assert_found(&url(&server), ABOUT, &expected).await;
        let ending = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        assert_eq!(server.ask(ending).await.expect("an end").len(), 2, "they were under way until then");
    };
    let _ = tokio::join!(looking, asleep, examining);
}

#[tokio::test]
async fn connections_that_run_out_are_found() {
    if !can_run(availability()) {
        return;
    }
    // Three are kept for superusers, such as the one that examines.
    let server = Setup::new().durable().setting("max_connections", "13").setting("autovacuum", "off");
    let server = server.start().await.expect("a server");
    let eight = sessions(&url(&server), 8).await;
    assert_found(&url(&server), ABOUT, &[ALONE]).await;
    let two = sessions(&url(&server), 2).await;
    assert_found(&url(&server), ABOUT, &[(Warning, "0 of the server's 10 connections are left"), ALONE]).await;
    drop((eight, two));
}

#[tokio::test]
async fn dead_rows_that_no_vacuum_removes_are_found() {
    if !can_run(availability()) {
        return;
    }
    let server = Setup::new().durable().setting("autovacuum", "off").start().await.expect("a server");
    assert_found(&url(&server), ABOUT, &[ALONE]).await;
    let fill =
        "INSERT INTO lockkeeper.queue (name, part, last) SELECT 'q' || n, 0, n FROM generate_series(1, 100001) n";
    server.ask(fill).await.expect("queues");
    server.ask("DELETE FROM lockkeeper.queue").await.expect("no queues");
    let is_counted = async || {
        let count =
            server.value("SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'lockkeeper.queue'::regclass");
        count.await.is_ok_and(|count| count == "100001").then_some(())
    };
    wait::until("the statistics", SOON, is_counted).await.expect("they are counted");
    assert_found(&url(&server), ABOUT, &[ALONE, (Warning, "`queue` has 100001 dead rows")]).await;
    server.ask("VACUUM lockkeeper.queue").await.expect("a vacuum");
    assert_found(&url(&server), ABOUT, &[ALONE]).await;
}
