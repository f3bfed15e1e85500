//! States of the data: each start of the server begins one, that is not settled; statements that could grant a lock are
//! refused until then, over each connection. A planted fault leaves one of the conditions out.

use lockkeeper_conformance::soon;
use lockkeeper_faults::pgbouncer::{self, Lending, PgBouncer};
use lockkeeper_session::FailureKind;

use super::client::{Client, look, open, text, tickets};
use super::pools;
use super::server::{Kind, Need, Server, can_run, each, each_with, server_with};
use crate::statement::{AnswerRow, Argument, RowKind};

/// How long a state is waited for at most, and where nothing can be lost.
pub(super) const LONGEST: Option<i64> = Some(60_000);
const BRIEF: Option<i64> = Some(5_000);

/// Whether a row of PostgreSQL's says that its state is settled.
const SETTLED_ROW: &str = concat!(
    "s.is_settled AND s.started = pg_postmaster_start_time() AND s.mark = s.xmin\n      AND ",
    "(s.token_ceiling = 0 OR EXISTS (SELECT FROM lockkeeper.start t WHERE t.started = s.started))"
);

impl Client {
    /// Greets a server; returns the word, how long the state is to be waited for, and its name.
    async fn greet_as(&self, instance: &str) -> (String, Option<i64>, String) {
        let instance = Argument::OptionalText(Some(instance.to_owned()));
        let AnswerRow { text, timeout_ms, ask, .. } = self.rows("greet", vec![instance]).await.remove(0);
        (text.expect("a word"), timeout_ms, ask.expect("its name"))
    }

    pub(super) async fn greet(&self) -> (String, Option<i64>, String) {
        self.greet_as(&self.greeting.instance).await
    }

    async fn word(&self, function: &'static str, state: &str) -> String {
        self.told(function, vec![text(state)]).await.0
    }

    /// Has all that are there waited for, as an operator does who has restored data.
    async fn says_that_it_is_restored(&self) {
        self.ok("limit", vec![Argument::OptionalInt(None), Argument::Flag(true)]).await;
    }
}

impl Server {
    /// Has it write what was committed without that.
    async fn flush(&self) {
        self.ask(self.either("CHECKPOINT", "DO 0")).await.expect("the operator's right");
    }

    /// Over a new connection, how long the state is to be waited for; then it is settled.
    pub(super) async fn wait_ms(&self) -> Option<i64> {
        let client = self.connect(1).await;
        let (word, wait_ms, state) = client.greet().await;
        assert_eq!(word, "unsettled");
        assert_eq!(client.word("settle", &state).await, "ok");
        wait_ms
    }

    /// Leaves out what keeps statements from granting locks in a state that is not settled, or is another one.
    pub(super) async fn plant_grants(&self) {
        let there_is = format!("EXISTS (SELECT FROM lockkeeper.state s WHERE {SETTLED_ROW})");
        let (refusals, joins) = (format!("IF NOT {there_is} THEN\n    RAISE"), format!("WHERE {SETTLED_ROW} AND o.id"));
        let run = "IF NOT EXISTS (SELECT 1 FROM lockkeeper.state s WHERE s.is_settled AND s.run = RIGHT(UUID(), 17)) \
                   THEN\n    SIGNAL";
        let postgres = [(&*refusals, "IF false THEN\n    RAISE"), (&*joins, "WHERE o.id"), pools::CHECK];
        let mariadb = [(run, "IF false THEN\n    SIGNAL"), ("v_epoch IS NULL OR NOT v_is_settled", "v_epoch IS NULL")];
        self.plant(self.either(&postgres[..], &mariadb[..])).await;
    }
}

#[tokio::test]
async fn another_state_of_the_data_is_unsettled_until_a_client_says_that_it_has_waited() {
    for server in each().await {
        let client = server.connect(1).await;
        let (word, _, first) = client.greet_as("a").await;
        assert_eq!(word, "ok", "a new schema is settled");
        let second = client.greet_as("b").await;
        assert_eq!((second.0.as_str(), second.1), ("unsettled", LONGEST));
        assert_eq!(client.greet_as("b").await, second);
        assert_eq!(client.told("open", open(2, 60_001)).await.0, "long");
        assert_eq!(client.told("open", open(2, 4_000)).await.0, "unsettled");
        assert_eq!(client.word("settle", &first).await, "unsettled", "it is another one now");
        let state = second.2;
        assert_eq!([client.word("settle", &state).await, client.word("doubt", &state).await], ["ok", "ok"]);
        assert_eq!(client.greet_as("b").await.0, "ok");
    }
}

#[tokio::test]
async fn two_who_greet_a_new_schema_at_once_find_it_settled() {
    let Some(server) = server_with(Kind::Postgres, Need::Nothing).await else { return };
    let client = server.connect(1).await;
    // One greets and opens a session in one transaction, which ends when the other waits for it.
    let first = "SELECT lockkeeper.greet_v1('a'); \
                 SELECT lockkeeper.open_v1(gen_random_uuid(), 4000, 'an owner', false); \
                 DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted) LOOP \
                 PERFORM pg_sleep(0.01); END LOOP; END $$";
    let second = async {
        server.until_asleep().await;
        client.greet_as("a").await.0
    };
    let (opened, word) = tokio::join!(server.ask(first), second);
    opened.expect("a session");
    assert_eq!(word, "ok");
}

#[tokio::test]
async fn a_clean_start_is_waited_for_briefly_and_what_may_have_lost_data_for_the_longest_timeout() {
    for mut server in each_with(Need::Durability).await {
        server.open(1).await;
        server.restart().await.expect("it starts again");
        assert_eq!(server.wait_ms().await, BRIEF);
        server.crash().await;
        // What MariaDB flushes it has.
        assert_eq!(server.wait_ms().await, server.either(LONGEST, BRIEF));
        if server.kind() == Kind::Postgres {
            server.ask("UPDATE lockkeeper.state SET is_settled = true").await.expect("a row as from a dump");
            assert_eq!(server.wait_ms().await, LONGEST);
        }
    }
    let Some(mut server) = server_with(Kind::Mariadb, Need::Nothing).await else { return };
    server.open(1).await;
    server.restart().await.expect("it starts again");
    assert_eq!(server.wait_ms().await, LONGEST);
    server.crash().await;
    assert_eq!(server.wait_ms().await, LONGEST);
}

#[tokio::test]
async fn a_state_that_is_not_settled_is_waited_for_no_shorter_after_another_start() {
    for mut server in each_with(Need::Durability).await {
        let client = server.open(1).await;
        client.says_that_it_is_restored().await;
        assert_eq!(client.greet().await.1, LONGEST);
        server.restart().await.expect("it starts again");
        assert_eq!(server.wait_ms().await, LONGEST);
    }
}

#[tokio::test]
async fn one_who_misses_what_it_had_makes_a_brief_wait_the_longest_and_a_settled_state_stays() {
    for mut server in each_with(Need::Durability).await {
        server.open(1).await;
        server.restart().await.expect("it starts again");
        let client = server.connect(1).await;
        let (_, brief, state) = client.greet().await;
        assert_eq!(brief, BRIEF);
        assert_eq!(client.word("doubt", &state).await, "ok");
        let (word, long, doubted) = client.greet().await;
        assert_eq!((word.as_str(), long), ("unsettled", LONGEST));
        assert_ne!(state, doubted, "who waited for the former one begins anew");
        assert_eq!(client.word("settle", &state).await, "unsettled");
        assert_eq!([client.word("settle", &doubted).await, client.word("doubt", &doubted).await], ["ok", "ok"]);
        assert_eq!(client.greet().await.0, "ok");
    }
}

#[tokio::test]
async fn the_longest_timeout_is_raised_with_a_wait_and_lowered_when_no_session_has_a_longer_one() {
    for server in each().await {
        let client = server.open(1).await;
        let limit = async |timeout_ms: i64| {
            client.told("limit", vec![Argument::OptionalInt(Some(timeout_ms)), Argument::Flag(false)]).await.0
        };
        assert_eq!(limit(9_000).await, "long", "one of 10 s is open");
        assert_eq!(limit(10_000).await, "ok");
        assert_eq!(client.told("open", open(2, 10_001)).await.0, "long");
        assert_eq!(client.greet().await.0, "ok");
        assert_eq!(limit(300_000).await, "ok");
        assert_eq!(server.wait_ms().await, Some(300_000));
        assert_eq!(client.told("open", open(2, 300_000)).await.0, "ok");
    }
}

#[tokio::test]
async fn a_beat_names_the_state_of_the_data_with_the_longest_timeout_and_none_that_is_not_settled() {
    for server in each().await {
        let client = server.open(1).await;
        let named = async |beat| {
            let status = client.rows("beat", client.to_beat(1, beat, [&[]; 2], 0)).await.remove(0);
            (status.ask.expect("a name, or none"), status.timeout_ms)
        };
        let first = client.greet().await.2;
        assert_eq!(named(2).await, (first.clone(), LONGEST));
        client.says_that_it_is_restored().await;
        assert_eq!(named(3).await, (String::new(), None));
        server.wait_ms().await;
        let second = client.greet().await.2;
        assert_ne!(first, second);
        assert_eq!(named(4).await, (second, LONGEST));
    }
}

/// Whether a statement grants a lock in a state that an operator's restore has begun.
async fn is_granted_after_a_restore(server: &Server) -> bool {
    let client = server.open(1).await;
    client.says_that_it_is_restored().await;
    let Err(failure) = soon("a join", client.joining("door", 10)).await else { return true };
    assert!(failure.kind == FailureKind::Broken && failure.to_string().contains("grants no lock"), "{failure}");
    assert_eq!(server.wait_ms().await, LONGEST);
    false
}

#[tokio::test]
async fn a_statement_grants_nothing_until_the_state_is_settled() {
    for server in each().await {
        assert!(!is_granted_after_a_restore(&server).await);
        server.plant_grants().await;
        assert!(is_granted_after_a_restore(&server).await, "the planted fault is found");
    }
}

/// Whether a server that has started again grants a lock over connections that have not greeted it: those of a pooler,
/// which outlive it, or new ones that a proxy opened, unseen by its client.
async fn is_granted_unseen(server: &mut Server, pooler: Option<&PgBouncer>, session: u128) -> bool {
    let url = pooler.map_or_else(|| server.url(), |pooler| pooler.url("postgres"));
    let client = Client::open(&url, session).await;
    client.join("door", 10 * session).await;
    server.flush().await;
    server.crash().await;
    let mut refused = 0;
    for (function, arguments) in [
        ("join", client.to_join("gate", &[10 * session + 1], &[0])),
        ("look", look("door", Some(10 * session), false)),
        ("missing", vec![Argument::Ids(vec![7])]),
        ("watch", vec![client.session.into(), Argument::Int(1), text("door"), Argument::Int(0)]),
    ] {
        // A refusal ends a connection that is no pooler's.
        let unseen = if pooler.is_none() { Some(Client::connect(&url, session).await) } else { None };
        let asked = unseen.as_ref().unwrap_or(&client);
        if let Err(failure) = soon(function, asked.call(function, arguments)).await {
            let why = if pooler.is_some() { "to another state of its data" } else { "grants no lock" };
            assert!(failure.kind == FailureKind::Broken && failure.to_string().contains(why), "{failure}");
            refused += 1;
        }
    }
    // What the session holds goes on, and no departure is told.
    let beating = Client::connect(&url, session).await;
    let rows = beating.rows("beat", beating.to_beat(1, 2, [&[10 * session, 9], &[8]], 0)).await;
    assert_eq!((rows[0].ask.as_deref(), tickets(&rows, RowKind::Missing)), (Some(""), vec![9]));
    assert!(refused == 0 || refused == 4, "{refused} of 4 statements were refused");
    refused == 0
}

#[tokio::test]
async fn a_statement_over_a_proxys_connection_grants_nothing_after_another_start() {
    for mut server in each_with(Need::Durability).await {
        assert!(!is_granted_unseen(&mut server, None, 1).await);
        server.wait_ms().await;
        server.plant_grants().await;
        assert!(is_granted_unseen(&mut server, None, 2).await, "the planted fault is found");
    }
}

#[tokio::test]
async fn a_statement_over_a_poolers_connection_grants_nothing_until_the_state_is_settled() {
    if !can_run(pgbouncer::availability()) {
        return;
    }
    let Some(mut server) = server_with(Kind::Postgres, Need::Durability).await else { return };
    let pooler = PgBouncer::start(server.postgres(), Lending::Transaction, 2).await.expect("a pooler");
    assert!(!is_granted_unseen(&mut server, Some(&pooler), 1).await);
    server.wait_ms().await;
    server.plant_grants().await;
    assert!(is_granted_unseen(&mut server, Some(&pooler), 2).await, "the planted fault is found");
}
