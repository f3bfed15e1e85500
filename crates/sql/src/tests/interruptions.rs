//! Statements that go in one message on MariaDB, and what becomes of it if a part of it fails, or is interrupted.

use lockkeeper_conformance::soon;
use lockkeeper_session::{Effect, Failure, FailureKind};

use super::client::Client;
use super::server::{Kind, Server, server};
use crate::statement::{status, word};

/// Between two instructions: where a join has stored its contender and is not committed, and where a release is.
const STORED: &str = "  -- The doors are taken last: a transaction that was given up has none.\n";
const COMMITTED: &str = "  DO RELEASE_LOCK(CONCAT('lk.', LOWER(HEX(p_ticket))));\n";

/// What makes a procedure sleep there, for longer than any test waits. `DO` would swallow the interruption.
const ASLEEP: &str = "  SELECT SLEEP(600) INTO @slept;\n";

/// What a deletion of MariaDB's does that is interrupted at its first row: nothing, and the procedure goes on.
const NONE_DELETED: [(&str, &str); 3] = [
    (
        "DELETE FROM lockkeeper.contender WHERE ticket = p_ticket AND (",
        "DELETE FROM lockkeeper.contender WHERE FALSE AND (",
    ),
    (
        "DELETE FROM lockkeeper.contender WHERE session = p_session AND ticket NOT IN",
        "DELETE FROM lockkeeper.contender WHERE FALSE AND ticket NOT IN",
    ),
    ("DELETE FROM lockkeeper.session WHERE id = p_session", "DELETE FROM lockkeeper.session WHERE FALSE"),
];

#[tokio::test]
async fn the_end_of_a_session_goes_behind_a_release_and_both_are_answered_also_where_one_fails() {
    let Some(server) = server(Kind::Mariadb).await else { return };
    for names_a_lock in [true, false] {
        let client = server.open(1).await;
        client.join("door", 10).await;
        let arguments = if names_a_lock { client.to_leave("door", 10) } else { vec![client.session.into()] };
        let leaving = client.call("leave", arguments);
        let closing = client.call("close", vec![client.session.into()]);
        match soon("a release", leaving).await {
            Ok(left) => assert_eq!((word(&left).expect("a word"), names_a_lock), ("left", true)),
            Err(failure) => assert!(!names_a_lock && failure.kind != FailureKind::Deadline, "{failure}"),
        }
        let closed = soon("the end", closing).await.expect("it is answered");
        assert_eq!(status(&closed).expect("a status").number, Some(0), "nothing is left of it");
    }
    let other = server.open(2).await;
    other.join("door", 20).await;
    let (leaving, failing) = (other.call("leave", other.to_leave("door", 20)), other.call("close", Vec::new()));
    let left = soon("a release", leaving).await.expect("it is answered");
    assert_eq!(word(&left).expect("a word"), "left");
    soon("a refusal", failing).await.expect_err("it names no session");
    assert_eq!(other.leave("door", 20).await, "removed", "the connection is of use");
    let counted = server.value("SELECT COUNT(*) FROM lockkeeper.session").await.expect("a count");
    assert_eq!(counted, "1", "the first session has ended");
}

/// Ends the statement that sleeps, as an operator does.
async fn interrupt(server: &Server) {
    server.until_asleep().await;
    server.wake().await;
}

/// No handler has run: a transaction may be open on this connection, with rows locked, or be committed.
async fn was_given_up(client: &Client, failure: &Failure) {
    assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::Unknown), "{failure}");
    soon("the end of its connection", client.wire.over()).await;
}

#[tokio::test]
async fn a_release_that_is_interrupted_behind_its_commit_may_have_taken_effect() {
    let Some(server) = server(Kind::Mariadb).await else { return };
    let client = server.open(1).await;
    client.join("door", 10).await;
    server.plant(&[(COMMITTED, ASLEEP)]).await;
    let leaving = client.call("leave", client.to_leave("door", 10));
    interrupt(&server).await;
    let failure = soon("a refusal", leaving).await.expect_err("it was interrupted");
    was_given_up(&client, &failure).await;
    assert_eq!(server.open(2).await.queue("door").await, [0_u128; 0], "it was committed");
}

#[tokio::test]
async fn a_join_that_is_interrupted_leaves_no_row_locked_and_no_connection_that_refuses_the_next_call() {
    let Some(server) = server(Kind::Mariadb).await else { return };
    let (client, other) = (server.open(1).await, server.open(3).await);
    // A limit of the server's does the same as an operator.
    let brief = server.url().replace("session_timeout=30s", "session_timeout=6s");
    let limited = Client::open(&brief, 2).await;
    server.plant(&[(STORED, ASLEEP)]).await;
    let joining = client.joining("door", 10);
    interrupt(&server).await;
    let failure = soon("a refusal", joining).await.expect_err("it was interrupted");
    was_given_up(&client, &failure).await;
    let failure = soon("a refusal", limited.joining("door", 20)).await.expect_err("it took too long");
    was_given_up(&limited, &failure).await;
    server.plant(&[]).await;
    other.join("door", 30).await;
    assert_eq!(other.queue("door").await, [30]);
}

#[tokio::test]
async fn a_deletion_that_deletes_nothing_of_what_is_there_was_interrupted_and_nothing_else_is_said_of_it() {
    let Some(server) = server(Kind::Mariadb).await else { return };
    let (leaving, closing) = (server.open(1).await, server.open(2).await);
    for (client, ticket) in [(&leaving, 10), (&closing, 20)] {
        client.join("door", ticket).await;
    }
    let resuming = server.connect(2).await;
    server.plant(&NONE_DELETED).await;
    let failed = leaving.call("leave", leaving.to_leave("door", 10));
    was_given_up(&leaving, &soon("a refusal", failed).await.expect_err("it stands")).await;
    let failed = resuming.call("resume", resuming.to_resume(2, 2, &[]));
    was_given_up(&resuming, &soon("a refusal", failed).await.expect_err("a ghost stands")).await;
    let failed = closing.call("close", vec![closing.session.into()]);
    was_given_up(&closing, &soon("a refusal", failed).await.expect_err("the session is there")).await;
    server.plant(&[]).await;
    let again = server.connect(1).await;
    assert_eq!(again.leave("door", 10).await, "left", "a refusal took nothing out of the queue");
    assert_eq!(again.queue("door").await, [20]);
}
