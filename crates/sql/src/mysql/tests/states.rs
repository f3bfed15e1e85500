//! States of the data: each start of the server begins one, that is not settled; statements that could grant a lock are
//! refused until then. A planted fault leaves the condition out.

use lockkeeper_faults::mariadb::{Server, Setup};
use lockkeeper_session::FailureKind;

use crate::mysql::tests::support::{Client, can_run, join, look, plant, soon, url};
use crate::statement::{Argument, Row};

/// What keeps statements from granting locks in another state, and the same that lets them.
const UNTIL_SETTLED: (&str, &str) = (
    "IF NOT EXISTS (SELECT 1 FROM lockkeeper.state s WHERE s.is_settled AND s.run = RIGHT(UUID(), 17)) THEN\n    \
     SIGNAL",
    "IF FALSE THEN\n    SIGNAL",
);

fn text(text: &str) -> Argument {
    Argument::Text(text.to_owned())
}

/// Greets a server; returns the word, how long the state is to be waited for, and its name.
async fn greet(client: &Client) -> (String, Option<i64>, String) {
    let instance = Argument::OptionalText(Some(client.greeting.instance.clone()));
    let Row { text, timeout_ms, ask, .. } =
        soon("a greeting", client.call("greet", vec![instance])).await.expect("an answer").remove(0);
    (text.expect("a word"), timeout_ms, ask.expect("its name"))
}

/// Over a new connection, how long the state is to be waited for; then it is settled.
async fn wait_ms(server: &Server) -> i64 {
    let client = Client::connect(&url(server), 1).await;
    let (word, wait_ms, state) = greet(&client).await;
    assert_eq!(word, "unsettled");
    client.ok("settle", vec![text(&state)]).await;
    wait_ms.expect("a wait")
}

#[tokio::test]
async fn a_start_is_waited_for_briefly_where_all_is_flushed_and_for_the_longest_timeout_elsewhere() {
    if !can_run() {
        return;
    }
    for (setup, expected_ms) in [(Setup::new().durable(), 5_000), (Setup::new(), 60_000)] {
        let mut server = setup.start().await.expect("a server");
        let first = Client::open(&url(&server), 1).await;
        assert_eq!(greet(&first).await.0, "ok");
        server.restart().await.expect("it starts again");
        assert_eq!(wait_ms(&server).await, expected_ms);
        server.kill();
        server.start().expect("it starts");
        server.serving().await.expect("it serves");
        assert_eq!(wait_ms(&server).await, expected_ms);
    }
}

#[tokio::test]
async fn one_who_misses_what_it_had_makes_a_brief_wait_the_longest() {
    if !can_run() {
        return;
    }
    let mut server = Setup::new().durable().start().await.expect("a server");
    Client::open(&url(&server), 1).await;
    server.restart().await.expect("it starts again");
    let client = Client::connect(&url(&server), 1).await;
    let (_, _, state) = greet(&client).await;
    client.ok("doubt", vec![text(&state)]).await;
    assert_eq!(client.told("settle", vec![text(&state)]).await.0, "unsettled");
    assert_eq!(wait_ms(&server).await, 60_000);
}

#[tokio::test]
async fn the_longest_timeout_is_raised_with_a_wait_and_lowered_when_no_session_has_a_longer_one() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let client = Client::open(&url(&server), 1).await;
    let limit = async |timeout_ms: i64| {
        client.told("limit", vec![Argument::OptionalInt(Some(timeout_ms)), Argument::Flag(false)]).await.0
    };
    let open = |timeout_ms| vec![Argument::Id(2), Argument::Int(timeout_ms), text("another"), Argument::Flag(false)];
    assert_eq!(limit(9_000).await, "long", "one of 10 s is open");
    assert_eq!(limit(10_000).await, "ok");
    assert_eq!(client.told("open", open(10_001)).await.0, "long");
    assert_eq!(greet(&client).await.0, "ok");
    assert_eq!(limit(300_000).await, "ok");
    assert_eq!(wait_ms(&server).await, 300_000);
    assert_eq!(client.told("open", open(300_000)).await.0, "ok");
}

/// Whether a statement grants a lock in a state that an operator's restore has begun.
async fn is_granted_after_a_restore(server: &Server) -> bool {
    let client = Client::open(&url(server), 1).await;
    client.ok("limit", vec![Argument::OptionalInt(None), Argument::Flag(true)]).await;
    match soon("a join", client.call("join", join(client.session, 1, "door", &[10], &[0]))).await {
        Ok(_) => true,
        Err(failure) => {
            assert!(failure.kind == FailureKind::Broken && failure.to_string().contains("grants no lock"), "{failure}");
            let client = Client::connect(&url(server), 1).await;
            let (word, wait_ms, state) = greet(&client).await;
            assert_eq!((word.as_str(), wait_ms), ("unsettled", Some(60_000)));
            client.ok("settle", vec![text(&state)]).await;
            false
        }
    }
}

/// Whether a server that has started again grants a lock to a client whose proxy connected anew, unseen: over a
/// connection that has not greeted it.
async fn is_granted_over_a_proxys_connection(server: &mut Server, number: u128) -> bool {
    let client = Client::open(&url(server), number).await;
    client.join("door", 10 * number).await;
    server.restart().await.expect("it starts again");
    let mut refused = 0;
    for (function, arguments) in [
        ("join", join(client.session, 1, "gate", &[10 * number + 1], &[0])),
        ("look", look("door", Some(10 * number), false)),
        ("missing", vec![Argument::Ids(vec![7])]),
        ("watch", vec![client.session.into(), Argument::Int(1), text("door"), Argument::Int(0)]),
    ] {
        // A refusal ends the connection.
        let again = Client::connect(&url(server), number).await;
        if let Err(failure) = soon(function, again.call(function, arguments)).await {
            assert!(failure.kind == FailureKind::Broken && failure.to_string().contains("grants no lock"), "{failure}");
            refused += 1;
        }
    }
    assert!(refused == 0 || refused == 4, "{refused} of 4 statements were refused");
    refused == 0
}

#[tokio::test]
async fn a_statement_over_a_proxys_connection_grants_nothing_after_another_start() {
    if !can_run() {
        return;
    }
    let mut server = Setup::new().durable().start().await.expect("a server");
    assert!(!is_granted_over_a_proxys_connection(&mut server, 1).await);
    wait_ms(&server).await;
    plant(&server, &[UNTIL_SETTLED]).await;
    assert!(is_granted_over_a_proxys_connection(&mut server, 2).await, "the planted fault is found");
}

#[tokio::test]
async fn a_statement_grants_nothing_until_the_state_is_settled() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    assert!(!is_granted_after_a_restore(&server).await);
    plant(&server, &[UNTIL_SETTLED]).await;
    assert!(is_granted_after_a_restore(&server).await, "the planted fault is found");
}
