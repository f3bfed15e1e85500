//! States of the data: each start of the server begins one, that is not settled; statements that could grant a lock are
//! refused until then, over each connection. A planted fault leaves one of the conditions out.

use lockkeeper_faults::pgbouncer::{self, Lending, PgBouncer};
use lockkeeper_faults::postgres::{Server, Setup};
use lockkeeper_session::FailureKind;

use crate::postgres::tests::support::{Client, can_run, join, look, plant, read, server, soon, url};
use crate::statement::{Argument, Row, What};

/// What keeps statements from granting locks in another state, and the same that lets them.
const UNTIL_SETTLED: (&str, &str) = (
    "IF NOT EXISTS (SELECT FROM lockkeeper.state s WHERE s.is_settled AND s.started = pg_postmaster_start_time() \
     AND s.mark = s.xmin) THEN\n    RAISE",
    "IF false THEN\n    RAISE",
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

async fn settle(client: &Client, state: &str) {
    client.ok("settle", vec![text(state)]).await;
}

/// Over a new connection, how long the state is to be waited for; then it is settled.
async fn wait_ms(server: &Server) -> i64 {
    let client = Client::connect(&url(server), 1).await;
    let (word, wait_ms, state) = greet(&client).await;
    assert_eq!(word, "unsettled");
    settle(&client, &state).await;
    wait_ms.expect("a wait")
}

#[tokio::test]
async fn another_state_of_the_data_is_unsettled_until_a_client_says_that_it_has_waited() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::connect(&url(&server), 1).await;
    let greet = async |instance: &str| {
        soon("a greeting", client.call("greet", vec![Argument::OptionalText(Some(instance.to_owned()))]))
            .await
            .expect("an answer")
            .remove(0)
    };
    let word = async |function, argument: &str| client.told(function, vec![text(argument)]).await.0;
    let first = greet("a").await;
    assert_eq!(first.text.as_deref(), Some("ok"), "a new schema is settled");
    let second = greet("b").await;
    assert_eq!((second.text.as_deref(), second.timeout_ms, second.number), (Some("unsettled"), Some(60_000), Some(2)));
    assert_eq!(greet("b").await, second);
    let open = |timeout_ms| vec![Argument::Id(2), Argument::Int(timeout_ms), text("another"), Argument::Flag(false)];
    assert_eq!(client.told("open", open(60_001)).await.0, "long");
    assert_eq!(client.told("open", open(4_000)).await.0, "unsettled");
    assert_eq!(word("settle", &first.ask.expect("its name")).await, "unsettled", "it is another one now");
    let state = second.ask.expect("its name");
    assert_eq!([word("settle", &state).await, word("doubt", &state).await], ["ok", "ok"]);
    assert_eq!(greet("b").await.text.as_deref(), Some("ok"));
}

#[tokio::test]
async fn a_clean_start_is_waited_for_briefly_and_what_may_have_lost_data_for_the_longest_timeout() {
    if !can_run() {
        return;
    }
    let mut server = Setup::new().durable().start().await.expect("a server");
    Client::open(&url(&server), 1).await;
    server.restart().await.expect("it ended cleanly");
    assert_eq!(wait_ms(&server).await, 5_000);
    server.kill();
    server.start().expect("it starts");
    server.serving().await.expect("it serves");
    assert_eq!(wait_ms(&server).await, 60_000);
    server.ask("UPDATE lockkeeper.state SET is_settled = true").await.expect("a row as from a dump");
    assert_eq!(wait_ms(&server).await, 60_000);
}

#[tokio::test]
async fn a_state_that_is_not_settled_is_waited_for_no_shorter_after_another_start() {
    if !can_run() {
        return;
    }
    let mut server = Setup::new().durable().start().await.expect("a server");
    let client = Client::open(&url(&server), 1).await;
    client.ok("limit", vec![Argument::OptionalInt(None), Argument::Flag(true)]).await;
    assert_eq!(greet(&client).await.1, Some(60_000));
    server.restart().await.expect("it ended cleanly");
    assert_eq!(wait_ms(&server).await, 60_000);
}

#[tokio::test]
async fn one_who_misses_what_it_had_makes_a_brief_wait_the_longest_and_a_settled_state_stays() {
    if !can_run() {
        return;
    }
    let mut server = Setup::new().durable().start().await.expect("a server");
    Client::open(&url(&server), 1).await;
    server.restart().await.expect("it ended cleanly");
    let client = Client::connect(&url(&server), 1).await;
    let (_, brief, state) = greet(&client).await;
    assert_eq!(brief, Some(5_000));
    client.ok("doubt", vec![text(&state)]).await;
    let (word, long, doubted) = greet(&client).await;
    assert_eq!((word.as_str(), long), ("unsettled", Some(60_000)));
    assert_ne!(state, doubted, "who waited for the former one begins anew");
    assert_eq!(client.told("settle", vec![text(&state)]).await.0, "unsettled");
    settle(&client, &doubted).await;
    client.ok("doubt", vec![text(&doubted)]).await;
    assert_eq!(greet(&client).await.0, "ok");
}

#[tokio::test]
async fn the_longest_timeout_is_raised_with_a_wait_and_lowered_when_no_session_has_a_longer_one() {
    if !can_run() {
        return;
    }
    let server = server().await;
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
    let (word, wait_ms, state) = greet(&client).await;
    assert_eq!((word.as_str(), wait_ms), ("unsettled", Some(300_000)));
    settle(&client, &state).await;
    assert_eq!(client.told("open", open(300_000)).await.0, "ok");
}

/// Whether a connection to a pooler, which outlives its server, grants a lock in a state that is not settled.
async fn is_granted_over_a_poolers_connection(server: &mut Server) -> bool {
    let pooler = PgBouncer::start(server, Lending::Transaction, 2).await.expect("a pooler");
    let client = Client::open(&pooler.url("postgres"), 1).await;
    client.join("door", 10).await;
    server.kill();
    server.start().expect("it starts");
    server.serving().await.expect("it serves");
    let mut refused = 0;
    for (function, arguments) in [
        ("join", join(client.session, 1, "gate", &[20], &[0])),
        ("look", look("door", Some(10), false)),
        ("missing", vec![Argument::Ids(vec![7])]),
        ("watch", vec![client.session.into(), Argument::Int(1), text("door"), Argument::Int(0)]),
    ] {
        if let Err(failure) = soon(function, client.call(function, arguments)).await {
            assert!(failure.kind == FailureKind::Broken && failure.to_string().contains("grants no lock"), "{failure}");
            refused += 1;
        }
    }
    // What the session holds goes on, and no departure is told.
    let tickets = [Argument::Ids(vec![10, 11]), Argument::Ids(vec![12])];
    let [roll, awaited] = tickets;
    let beat = vec![client.session.into(), Argument::Int(1), Argument::Int(2), roll, awaited, Argument::Int(0)];
    let (word, rows) = read(soon("a beat", client.call("beat", beat)).await.expect("an answer"));
    let missing: Vec<_> = rows.iter().filter(|row| row.says(What::Missing)).map(|row| row.ticket).collect();
    assert_eq!((word.as_str(), missing), ("ok", vec![Some(11)]));
    assert!(refused == 0 || refused == 4, "{refused} of 4 statements were refused");
    refused == 0
}

#[tokio::test]
async fn a_statement_over_a_poolers_connection_grants_nothing_until_the_state_is_settled() {
    let test = "a_statement_over_a_poolers_connection_grants_nothing_until_the_state_is_settled";
    if !can_run() || !pgbouncer::availability().or_skip(test) {
        return;
    }
    let mut server = Setup::new().durable().start().await.expect("a server");
    assert!(!is_granted_over_a_poolers_connection(&mut server).await);
    server.ask("DROP SCHEMA lockkeeper CASCADE").await.expect("it begins anew");
    plant(&server, &[UNTIL_SETTLED]).await;
    assert!(is_granted_over_a_poolers_connection(&mut server).await, "the planted fault is found");
}
