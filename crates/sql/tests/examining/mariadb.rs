//! MariaDB, alone, with a replica and as a node of Galera.

use lockkeeper_core::Severity::{Note, Warning};
use lockkeeper_faults::mariadb::{Server, Setup, availability, clock_availability, galera_availability};

use crate::finding::{Expected, assert_found, can_run, examine, sessions};

const ABOUT: &str = "MariaDB 10.11";

/// What is true of a server that stands alone.
const ALONE: Expected = (Note, "has no standby");

fn url(server: &Server) -> String {
    server.url("")
}

#[tokio::test]
async fn a_server_in_order_has_notes_alone_and_nothing_is_left_there() {
    if !can_run(availability()) {
        return;
    }
    let server = Setup::new().durable().start().await.expect("a server");
    assert_found(&url(&server), ABOUT, &[ALONE]).await;
    let count = "SELECT (SELECT COUNT(*) FROM lockkeeper.session) + (SELECT COUNT(*) FROM lockkeeper.queue)";
    assert_eq!(server.value(count).await.expect("a count"), "0");
}

#[tokio::test]
async fn a_user_that_may_execute_the_procedures_alone_finds_what_others_find() {
    if !can_run(availability()) {
        return;
    }
    for (value, severity) in [("0", Warning), ("2", Note)] {
        let server = Setup::new().setting("innodb-flush-log-at-trx-commit", value).start().await.expect("a server");
        let expected = [(severity, "innodb_flush_log_at_trx_commit"), ALONE];
        assert_found(&url(&server), ABOUT, &expected).await;
        server.ask("CREATE USER app@'%' IDENTIFIED BY 'secret'").await.expect("a user");
        server.ask("GRANT EXECUTE ON lockkeeper.* TO app@'%'").await.expect("rights");
        assert_found(&server.url_as("app", Some("secret"), ""), ABOUT, &expected).await;
    }
}

#[tokio::test]
async fn what_the_maker_of_the_schema_may_not_see_is_told_with_the_grant_that_helps() {
    if !can_run(availability()) {
        return;
    }
    let server = Setup::new().durable().start().await.expect("a server");
    server.ask("CREATE USER owner@'%' IDENTIFIED BY 'secret'").await.expect("a user");
    server.ask("GRANT ALL ON lockkeeper.* TO owner@'%'").await.expect("rights");
    let url = server.url_as("owner", Some("secret"), "");
    assert_found(&url, ABOUT, &[(Note, "GRANT PROCESS ON *.* TO 'owner'@'%';"), ALONE]).await;
    server.ask("GRANT PROCESS ON *.* TO 'owner'@'%';").await.expect("the grant");
    assert_found(&url, ABOUT, &[ALONE]).await;
}

#[tokio::test]
async fn a_replica_that_no_commit_waits_for_is_found_and_a_replica_itself_is_refused() {
    if !can_run(availability()) {
        return;
    }
    let server = Setup::new().durable().replicated().start().await.expect("a server");
    assert_found(&url(&server), ABOUT, &[ALONE]).await;
    let replica = server.replica().await.expect("a replica");
    replica.caught_up(&server).await.expect("it follows");
    assert_found(&url(&server), ABOUT, &[(Warning, "asynchronous")]).await;
    // A replica's superuser may write in spite of `read_only`, and others may not: all are refused.
    let refusal = examine(&url(&replica)).await.expect_err("it only reads");
    assert!(refusal.to_string().contains("read_only"), "{refusal}");
}

#[tokio::test]
async fn a_node_of_galera_is_found_where_it_is_let() {
    if !can_run(galera_availability()) {
        return;
    }
    let server = Setup::new().durable().galera().start().await.expect("a node");
    let expected = [(Warning, "nodes of Galera"), ALONE, (Note, "a node of Galera tells nothing")];
    assert_found(&format!("{}?galera=one-node", url(&server)), ABOUT, &expected).await;
}

#[tokio::test]
async fn a_clock_that_differs_and_a_transaction_that_is_old_by_it_are_found() {
    if !can_run(availability()) || !can_run(clock_availability()) {
        return;
    }
    let server = Setup::new().durable().movable_clock().start().await.expect("a server");
    // It outlives its connection.
    let prepared = "CREATE DATABASE other; CREATE TABLE other.it (it int) ENGINE=InnoDB; XA START 'x'; \
                    INSERT INTO other.it VALUES (1); XA END 'x'; XA PREPARE 'x'";
    server.ask(prepared).await.expect("a prepared transaction");
    // The server shows its transactions as they were at the last look, if that is less than 0.1 s ago.
    assert_found(&url(&server), ABOUT, &[ALONE]).await;
    server.move_clock(60_000).await.expect("its clock moves");
    let expected = [ALONE, (Warning, "a prepared transaction goes on for 60"), (Warning, "ahead of")];
    assert_found(&url(&server), ABOUT, &expected).await;
}

#[tokio::test]
async fn connections_that_run_out_are_found() {
    if !can_run(availability()) {
        return;
    }
    let server = Setup::new().durable().setting("max-connections", "10").start().await.expect("a server");
    let eight = sessions(&url(&server), 8).await;
    assert_found(&url(&server), ABOUT, &[ALONE]).await;
    let one = sessions(&url(&server), 1).await;
    assert_found(&url(&server), ABOUT, &[ALONE, (Warning, "0 of the server's 10 connections are left")]).await;
    drop((eight, one));
}
