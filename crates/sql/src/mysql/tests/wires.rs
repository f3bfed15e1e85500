//! The connection: what goes in one message, and what becomes of it if a part of it fails, or is interrupted.

use lockkeeper_faults::mariadb::Server;
use lockkeeper_session::{Effect, Failure, FailureKind};

use crate::mysql::tests::support::{Client, can_run, leave, plant, queue, server, soon, until_asleep, url};
use crate::statement::{Argument, status, word};

#[tokio::test]
async fn the_end_of_a_session_goes_behind_a_release_and_both_are_answered() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    client.join("door", 10).await;
    let leaving = client.call("leave", leave(client.session, "door", 10));
    let closing = client.call("close", vec![client.session.into()]);
    let left = soon("a release", leaving).await.expect("it is answered");
    assert_eq!(word(&left).expect("a word"), "left");
    let closed = soon("the end", closing).await.expect("it is answered");
    assert_eq!(status(&closed).expect("a status").number, Some(0), "nothing is left of it");
}

#[tokio::test]
async fn what_goes_in_one_message_behind_a_statement_that_fails_is_executed_all_the_same() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    client.join("door", 10).await;
    // It names no lock.
    let failing = client.call("leave", vec![client.session.into()]);
    let closing = client.call("close", vec![client.session.into()]);
    let failure = soon("a refusal", failing).await.expect_err("it fails");
    assert_ne!(failure.kind, FailureKind::Deadline, "{failure}");
    let closed = soon("the end", closing).await.expect("it is answered");
    assert_eq!(status(&closed).expect("a status").number, Some(0));
    let other = Client::open(&url(&server), 2).await;
    other.join("door", 20).await;
    let (leaving, failing) = (other.call("leave", leave(other.session, "door", 20)), other.call("close", Vec::new()));
    let left = soon("a release", leaving).await.expect("it is answered");
    assert_eq!(word(&left).expect("a word"), "left");
    soon("a refusal", failing).await.expect_err("it names no session");
    assert_eq!(other.leave("door", 20).await, "removed", "the connection is of use");
    let counted = server.value("SELECT COUNT(*) FROM lockkeeper.session").await.expect("a count");
    assert_eq!(counted, "1", "the first session has ended");
}

/// Between two instructions: where a join has stored its contender and is not committed, and where a release is.
const STORED: &str = "  -- The doors are taken last: a transaction that was given up has none.\n";
const COMMITTED: &str = "  DO RELEASE_LOCK(CONCAT('lk.', LOWER(HEX(p_ticket))));\n";

/// What makes a procedure sleep there, for longer than any test waits. `DO` would swallow the interruption.
const ASLEEP: &str = "  SELECT SLEEP(600) INTO @slept;\n";

/// Ends the statement that sleeps, as an operator does.
async fn interrupt(server: &Server) {
    until_asleep(server).await;
    let finding = "SELECT id FROM information_schema.processlist WHERE state = 'User sleep'";
    let id = server.value(finding).await.expect("one sleeps");
    server.ask(&format!("KILL QUERY {id}")).await.expect("the operator's right");
}

/// No handler has run: a transaction may be open on this connection, with rows locked, or be committed.
async fn was_given_up(client: &Client, failure: &Failure) {
    assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::Unknown), "{failure}");
    soon("the end of its connection", client.wire.over()).await;
}

#[tokio::test]
async fn a_release_that_is_interrupted_behind_its_commit_may_have_taken_effect() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    client.join("door", 10).await;
    plant(&server, &[(COMMITTED, ASLEEP)]).await;
    let leaving = client.call("leave", leave(client.session, "door", 10));
    interrupt(&server).await;
    let failure = soon("a refusal", leaving).await.expect_err("it was interrupted");
    was_given_up(&client, &failure).await;
    let other = Client::open(&url(&server), 2).await;
    assert_eq!(queue(&other, "door").await, Vec::<u128>::new(), "it was committed");
}

#[tokio::test]
async fn a_join_that_is_interrupted_leaves_no_row_locked_and_no_connection_that_refuses_the_next_call() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    // A limit of the server's does the same as an operator.
    let limited = Client::open(&format!("{}?session_timeout=6s", server.url("")), 2).await;
    let other = Client::open(&url(&server), 3).await;
    plant(&server, &[(STORED, ASLEEP)]).await;
    let joining = client.joining("door", 10);
    interrupt(&server).await;
    let failure = soon("a refusal", joining).await.expect_err("it was interrupted");
    was_given_up(&client, &failure).await;
    let failure = soon("a refusal", limited.joining("door", 20)).await.expect_err("it took too long");
    was_given_up(&limited, &failure).await;
    plant(&server, &[(STORED, STORED)]).await;
    other.join("door", 30).await;
    assert_eq!(queue(&other, "door").await, [30]);
}

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
async fn a_deletion_that_deletes_nothing_of_what_is_there_was_interrupted_and_nothing_else_is_said_of_it() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let clients = [Client::open(&url(&server), 1).await, Client::open(&url(&server), 2).await];
    for (client, ticket) in clients.iter().zip([10, 20]) {
        client.join("door", ticket).await;
    }
    let [leaving, closing] = clients;
    let resuming = Client::connect(&url(&server), 2).await;
    plant(&server, &NONE_DELETED).await;
    let failed = leaving.call("leave", leave(leaving.session, "door", 10));
    was_given_up(&leaving, &soon("a refusal", failed).await.expect_err("it stands")).await;
    let resume = vec![resuming.session.into(), Argument::Int(2), Argument::Int(2), Argument::Ids(Vec::new())];
    let failed = resuming.call("resume", resume);
    was_given_up(&resuming, &soon("a refusal", failed).await.expect_err("a ghost stands")).await;
    let failed = closing.call("close", vec![closing.session.into()]);
    was_given_up(&closing, &soon("a refusal", failed).await.expect_err("the session is there")).await;
    plant(&server, &[]).await;
    let again = Client::connect(&url(&server), 1).await;
    assert_eq!(again.leave("door", 10).await, "left", "a refusal took nothing out of the queue");
    assert_eq!(queue(&again, "door").await, [20]);
}
