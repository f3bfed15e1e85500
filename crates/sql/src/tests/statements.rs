//! Connections: statements in the order of the calls, what goes on, what is asked again, and why statements fail.

use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_session::{Effect, FailureKind};

use super::server::{Kind, connect, each, server};
use crate::statement::Argument;

const ALL_QUEUES: &str = "SELECT 1 FROM lockkeeper.queue FOR UPDATE";

#[tokio::test]
async fn statements_are_executed_in_the_order_of_the_calls_and_go_on_if_they_are_given_up() {
    for server in each().await {
        let client = server.open(1).await;
        let asked: Vec<_> = (0..2_000).map(|ticket| client.joining("door", ticket)).collect();
        // Half of them are given up, the others are asked for from the last to the first.
        for (number, asking) in asked.into_iter().enumerate().rev() {
            if number % 2 == 0 {
                soon("an answer", asking).await.expect("an answer");
            }
        }
        client.join("door", 2_000).await;
        assert_eq!(client.queue("door").await, (0..=2_000).collect::<Vec<u128>>());
    }
}

#[tokio::test]
async fn an_answer_that_its_caller_does_not_read_yet_holds_up_no_other() {
    // Their numbers are answered in many pieces.
    let tickets: Vec<u128> = (0..50_000).collect();
    for server in each().await {
        let client = server.open(1).await;
        let unread = client.call("missing", vec![Argument::Ids(tickets.clone())]);
        client.join("door", 10).await;
        assert_eq!(soon("an answer", unread).await.expect("an answer").len(), 1 + tickets.len());
    }
}

/// How often a connection is shut while statements are queued.
const SHUT: usize = 300;

/// What is queued just while the task with the connection ends may stay in the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_queued_while_its_connection_ends_is_not_left_without_an_answer() {
    for server in each().await {
        for _ in 0..SHUT {
            let client = Arc::new(server.connect(1).await);
            let queueing = client.clone();
            let asked = tokio::spawn(async move {
                let mut asked = Vec::new();
                while !queueing.wire.is_over() {
                    asked.push(queueing.call("missing", vec![Argument::Ids(Vec::new())]));
                    tokio::task::yield_now().await;
                }
                asked
            });
            tokio::task::yield_now().await;
            client.wire.shut();
            for asking in soon("the statements", asked).await.expect("it does not panic") {
                let _ = soon("an answer or a failure", asking).await;
            }
        }
    }
}

#[tokio::test]
async fn rows_that_another_transaction_holds_make_a_statement_fail_in_passing_and_leave_nothing() {
    for server in each().await {
        let client = server.open(1).await;
        client.join("door", 10).await;
        let joining = async {
            server.until_asleep().await;
            let answer = soon("a failure", client.joining("door", 11)).await;
            server.wake().await;
            answer
        };
        let (answer, ()) = tokio::join!(joining, server.hold(ALL_QUEUES));
        let failure = answer.expect_err("it waited for too long");
        assert_eq!((failure.kind, failure.effect), (FailureKind::Busy, Effect::None), "{failure}");
        assert!(failure.is_passing() && !failure.needs_another(), "{failure}");
        assert_eq!(client.queue("door").await, [10]);
    }
}

#[tokio::test]
async fn what_the_server_gives_up_is_asked_again_unless_its_withdrawal_was_asked_meanwhile() {
    let Some(server) = server(Kind::Postgres).await else { return };
    let client = server.open(1).await;
    server
        .ask("CREATE SEQUENCE lockkeeper.attempts; GRANT ALL ON SEQUENCE lockkeeper.attempts TO PUBLIC")
        .await
        .unwrap();
    // The first two attempts at each join fail as those of a deadlock do.
    let deadlock = "    IF nextval('lockkeeper.attempts') % 3 <> 0 THEN \
                    RAISE EXCEPTION 'a deadlock' USING ERRCODE = '40P01'; END IF;\n    IF v_last >= ";
    server.plant(&[("    IF v_last >= ", deadlock)]).await;
    client.join("door", 10).await;
    assert_eq!(client.queue("door").await, [10]);
    let joining = client.joining("door", 11);
    assert_eq!(client.leave("door", 11).await, "removed", "it comes before the second attempt");
    let failure = soon("a failure", joining).await.expect_err("it was overtaken");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Busy, Effect::None));
    assert_eq!(client.queue("door").await, [10], "a join never comes behind its withdrawal");
    server.plant(&[("    IF v_last >= ", &deadlock.replace("% 3", "% 1000"))]).await;
    let failure = soon("a failure", client.joining("door", 12)).await.expect_err("each attempt fails");
    assert_eq!(failure.kind, FailureKind::Busy);
    let attempts: u32 = server.value("SELECT last_value FROM lockkeeper.attempts").await.unwrap().parse().unwrap();
    assert!((12..=20).contains(&attempts), "{attempts} attempts");
}

#[tokio::test]
async fn a_connection_that_ends_says_so_and_that_what_was_sent_may_have_taken_effect() {
    for mut server in each().await {
        let mut client = server.open(1).await;
        client.join("door", 10).await;
        let joining = async {
            server.until_asleep().await;
            let joining = client.joining("door", 11);
            server.end_connections().await;
            let answer = soon("a failure", joining).await;
            server.wake().await;
            answer
        };
        let failure = tokio::join!(joining, server.hold(ALL_QUEUES)).0.expect_err("the connection ended");
        assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::Unknown), "{failure}");
        soon("its end", client.wire.over()).await;
        assert!(client.wire.is_over());
        assert_eq!(soon("the end of hints", client.hints.recv()).await, None);
        let failure = soon("a failure", client.joining("door", 12)).await.expect_err("it is over");
        assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::None));

        let client = server.connect(1).await;
        client.wire.shut();
        soon("its end", client.wire.over()).await;
        server.kill();
        let failure = soon("a failure", connect(&server.url())).await.map(drop).expect_err("the server is gone");
        assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::None), "{failure}");
    }
}
