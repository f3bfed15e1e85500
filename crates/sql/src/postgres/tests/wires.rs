//! Connections: statements in the order of the calls, what goes on, and why statements fail.

use lockkeeper_faults::postgres::Server;
use lockkeeper_session::{Effect, FailureKind};

use crate::postgres::tests::support::{
    Client, all, can_run, departed, engine, join, plant, queue, server, soon, until_asleep, url, wake,
};
use crate::statement::{Argument, What};

#[tokio::test]
async fn statements_are_executed_in_the_order_of_the_calls_and_go_on_if_they_are_given_up() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    let asked: Vec<_> = (0..2_000).map(|ticket| client.joining("door", ticket)).collect();
    // Half of them are given up, the others are asked for from the last to the first.
    for (number, asking) in asked.into_iter().enumerate().rev() {
        if number % 2 == 0 {
            soon("an answer", asking).await.expect("an answer");
        }
    }
    let _ = soon("the last", client.joining("door", 2_000)).await.expect("an answer");
    assert_eq!(queue(&client, "door").await, (0..=2_000).collect::<Vec<u128>>());
}

#[tokio::test]
async fn a_session_that_listens_is_counted_and_too_many_are_not_let_in() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    server
        .ask(
            "INSERT INTO lockkeeper.session (id, epoch, beat, timeout_ms, owner, listening) \
             SELECT gen_random_uuid(), 1, 1, 4000, 'another', true FROM generate_series(1, 128)",
        )
        .await
        .expect("sessions that listen");
    assert!(!soon("listening", client.wire.listen(client.session)).await.expect("an answer"));
    let listens = async |beat: i64| {
        let (session, none) = (client.session.into(), Argument::Ids(Vec::new()));
        let arguments = vec![session, Argument::Int(1), Argument::Int(beat), none.clone(), none, Argument::Int(0)];
        soon("a beat", client.call("beat", arguments)).await.expect("an answer")[0].epoch
    };
    assert_eq!(listens(2).await, Some(0));
    server.ask("UPDATE lockkeeper.session SET listening = false WHERE owner = 'another'").await.expect("an update");
    assert!(soon("listening", client.wire.listen(client.session)).await.expect("an answer"));
    assert_eq!(listens(3).await, Some(1));
    soon("unlistening", client.wire.unlisten(client.session)).await.expect("an answer");
    assert_eq!(listens(4).await, Some(0));
}

/// Asks to be told no more if at least `far` stand ahead of a token in the queue, counted up to `most`.
async fn rest(client: &Client, token: i64, far: i64, most: i64) -> (String, i64) {
    let mut arguments = vec![client.session.into(), Argument::Text("door".to_owned())];
    arguments.extend([0, token, far, most].map(Argument::Int));
    let row = soon("a count", client.call("rest", arguments)).await.expect("an answer").remove(0);
    (row.text.expect("a word"), row.number.expect("a count"))
}

#[tokio::test]
async fn a_session_that_is_far_from_its_turn_is_told_no_more_until_it_listens_again() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let holder = Client::open(&url(&server), 1).await;
    let mut waiter = Client::open(&url(&server), 2).await;
    for ticket in 10..30 {
        holder.join("door", ticket).await;
    }
    let stored = waiter.ok("join", join(waiter.session, 1, "door", &[50], &[0])).await;
    let token = all(&stored, What::Stored)[0].number.expect("a token");
    assert!(soon("listening", waiter.wire.listen(waiter.session)).await.expect("an answer"));
    assert_eq!(rest(&waiter, token, 21, 250).await, ("near".to_owned(), 20));
    assert_eq!(rest(&waiter, token, 8, 7).await, ("near".to_owned(), 7));
    assert_eq!(holder.leave("door", 29).await, "left");
    assert_eq!(waiter.hint().await, departed(29));
    holder.ok("join", join(holder.session, 1, "door", &[60], &[1])).await;
    assert_eq!(rest(&waiter, token, 19, 250).await, ("near".to_owned(), 19), "a reader stands there");
    assert_eq!(holder.leave("door", 60).await, "left");
    server.ask("UPDATE lockkeeper.queue SET modes = 1").await.expect("the reader is forgotten");
    assert_eq!(rest(&waiter, token, 19, 250).await, ("ok".to_owned(), 19));
    assert_eq!(holder.leave("door", 28).await, "left");
    waiter.assert_untold().await;
    assert!(soon("listening", waiter.wire.listen(waiter.session)).await.expect("an answer"));
    assert_eq!(holder.leave("door", 27).await, "left");
    assert_eq!(waiter.hint().await, departed(27));
}

/// Holds a queue's row in another's transaction until that is woken.
async fn hold_row(server: &Server) {
    let sql = "BEGIN; SELECT 1 FROM lockkeeper.queue FOR UPDATE; SELECT pg_sleep(600); COMMIT";
    server.ask(sql).await.expect_err("it is woken");
}

#[tokio::test]
async fn rows_that_another_transaction_holds_make_a_statement_fail_in_passing_and_leave_nothing() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    client.join("door", 10).await;
    let joining = async {
        until_asleep(&server).await;
        let answer = soon("a failure", client.joining("door", 11)).await;
        wake(&server).await;
        answer
    };
    let (answer, ()) = tokio::join!(joining, hold_row(&server));
    let failure = answer.expect_err("it waited for too long");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Busy, Effect::None), "{failure}");
    assert!(failure.is_passing() && !failure.needs_another(), "{failure}");
    assert_eq!(queue(&client, "door").await, [10]);
}

#[tokio::test]
async fn what_the_server_gives_up_is_asked_again_unless_its_withdrawal_was_asked_meanwhile() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    server
        .ask("CREATE SEQUENCE lockkeeper.attempts; GRANT ALL ON SEQUENCE lockkeeper.attempts TO PUBLIC")
        .await
        .unwrap();
    // The first two attempts at each join fail as those of a deadlock do.
    let deadlock = "    IF nextval('lockkeeper.attempts') % 3 <> 0 THEN \
                    RAISE EXCEPTION 'a deadlock' USING ERRCODE = '40P01'; END IF;\n    IF v_last >= ";
    plant(&server, &[("    IF v_last >= ", deadlock)]).await;
    client.join("door", 10).await;
    assert_eq!(queue(&client, "door").await, [10]);
    let joining = client.joining("door", 11);
    assert_eq!(client.leave("door", 11).await, "removed", "it comes before the second attempt");
    let failure = soon("a failure", joining).await.expect_err("it was overtaken");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Busy, Effect::None));
    assert_eq!(queue(&client, "door").await, [10], "a join never comes behind its withdrawal");
    plant(&server, &[("    IF v_last >= ", &deadlock.replace("% 3", "% 1000"))]).await;
    let failure = soon("a failure", client.joining("door", 12)).await.expect_err("each attempt fails");
    assert_eq!(failure.kind, FailureKind::Busy);
    let attempts: u32 = server.value("SELECT last_value FROM lockkeeper.attempts").await.unwrap().parse().unwrap();
    assert!((12..=20).contains(&attempts), "{attempts} attempts");
}

#[tokio::test]
async fn a_connection_that_ends_says_so_and_that_what_was_sent_may_have_taken_effect() {
    if !can_run() {
        return;
    }
    let mut server = server().await;
    let mut client = Client::open(&url(&server), 1).await;
    let holding = hold_row(&server);
    client.join("door", 10).await;
    let joining = async {
        until_asleep(&server).await;
        let joining = client.joining("door", 11);
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lockkeeper'";
        server.ask(end).await.expect("it is ended");
        let answer = soon("a failure", joining).await;
        wake(&server).await;
        answer
    };
    let failure = tokio::join!(joining, holding).0.expect_err("the connection ended");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::Unknown), "{failure}");
    soon("its end", client.wire.over()).await;
    assert!(client.wire.is_over());
    assert_eq!(soon("the end of hints", client.hints.recv()).await, None);
    let failure = soon("a failure", client.joining("door", 12)).await.expect_err("it is over");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::None));

    let client = Client::connect(&url(&server), 1).await;
    client.wire.shut();
    soon("its end", client.wire.over()).await;
    server.kill();
    let unreachable =
        crate::engine::Engine::connect(&engine(&url(&server)), 0, crate::postgres::tests::support::deadline());
    let failure = soon("a failure", unreachable).await.expect_err("the server is gone");
    assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::None), "{failure}");
}
