//! The connection: what goes in one message, and what becomes of it if a part of it fails.

use crate::failure::FailureKind;
use crate::mysql::tests::support::{Client, can_run, leave, server, soon, url};
use crate::statement::{status, word};

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
