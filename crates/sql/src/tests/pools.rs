//! Pools of the program's, whose connections may be any: to another server, or such that end without an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{Config as PoolConfig, Pool, Runtime};
use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::SystemClock;
use lockkeeper_session::{Effect, FailureKind};
use parking_lot::Mutex;

use super::client::{Client, tickets};
use super::server::{Kind, SETTINGS, Server, deadline, server};
use crate::engine::Intent;
use crate::postgres::{PoolError, PostgresPool, TextRow};
use crate::site::SqlSite;
use crate::statement::{Argument, RowKind};
use crate::url::Config;

/// What the check of a message is, and a check that finds nothing.
pub(super) const CHECK: (&str, &str) = ("s.id = p_state::uuid AND ", "true OR ");

fn pool(server: &Server) -> Pool {
    let url = Some(server.postgres().url("postgres"));
    PoolConfig { url, ..PoolConfig::new() }.create_pool(Some(Runtime::Tokio1), tokio_postgres::NoTls).expect("a pool")
}

/// Opens a session with this number over a pool.
async fn open_over(pool: Arc<dyn PostgresPool>, session: u128) -> Client {
    let config = Config::of_pool(&format!("postgres://app-db?{SETTINGS}").parse().expect("a URL")).expect("a good one");
    let SqlSite { engine, config, .. } = SqlSite::on_pool(pool, config, Arc::new(SystemClock));
    let connected = engine.connect(&config.servers[0], deadline(), Intent::Serve).await.expect("a connection");
    Client::begin(connected, session).await
}

/// Leads to one of several servers.
struct Switched {
    pools: [Pool; 2],
    at: AtomicUsize,
}

impl PostgresPool for Switched {
    fn ask(&self, message: String, free_within: Duration) -> BoxFuture<Result<Vec<TextRow>, PoolError>> {
        self.pools[self.at.load(Ordering::SeqCst)].ask(message, free_within)
    }
}

impl Client {
    /// Whether a contender is told to be gone that stands at another server.
    async fn misses(&self, ticket: u128) -> bool {
        let asked = soon("an answer", self.call("missing", vec![Argument::Ids(vec![ticket])])).await;
        match asked {
            Ok(rows) => tickets(&rows, RowKind::Missing) == [ticket],
            Err(failure) => {
                assert_eq!((failure.kind, failure.effect), (FailureKind::Broken, Effect::None), "{failure}");
                assert!(failure.to_string().contains("leads to another server"), "{failure}");
                false
            }
        }
    }
}

#[tokio::test]
async fn a_message_that_comes_to_another_server_is_refused_there() {
    let (Some(first), Some(second)) = (server(Kind::Postgres).await, server(Kind::Postgres).await) else { return };
    first.open(7).await.close().await;
    second.open(7).await.close().await;
    let both = Arc::new(Switched { pools: [pool(&first), pool(&second)], at: AtomicUsize::new(0) });
    let client = open_over(both.clone(), 1).await;
    client.join("door", 10).await;
    both.at.store(1, Ordering::SeqCst);
    assert!(!client.misses(10).await, "another server has no say in it");
    both.at.store(0, Ordering::SeqCst);
    assert!(!client.misses(10).await && client.queue("door").await == [10], "it stands where it was");
    // Without the check another server's answer would be taken.
    second.plant(&[CHECK]).await;
    both.at.store(1, Ordering::SeqCst);
    assert!(client.misses(10).await);
}

/// Keeps one message back, and says that its connection ended: it comes late, or never.
struct Delayed {
    pool: Pool,
    /// What the message has in it, until it is kept back.
    function: Mutex<Option<String>>,
    kept: Mutex<Option<String>>,
}

impl Delayed {
    /// Keeps back the next call of this function.
    fn new(pool: Pool, function: &str) -> Arc<Self> {
        let function = Mutex::new(Some(format!("FROM lockkeeper.{function}_v1(")));
        Arc::new(Self { pool, function, kept: Mutex::default() })
    }

    /// Lets the message have its effect over any connection.
    async fn come(&self) {
        let message = self.kept.lock().take().expect("one was kept back");
        soon("an answer", self.pool.ask(message, SOON)).await.expect("it is executed");
    }
}

impl PostgresPool for Delayed {
    fn ask(&self, message: String, free_within: Duration) -> BoxFuture<Result<Vec<TextRow>, PoolError>> {
        if self.function.lock().take_if(|function| message.contains(&**function)).is_some() {
            *self.kept.lock() = Some(message);
            return Box::pin(std::future::ready(Err(PoolError::Broken("the connection was reset".into()))));
        }
        self.pool.ask(message, free_within)
    }
}

#[tokio::test]
async fn nothing_is_sent_behind_a_message_that_was_not_answered() {
    let Some(server) = server(Kind::Postgres).await else { return };
    let client = open_over(Delayed::new(pool(&server), "join"), 1).await;
    let (joining, leaving) = (client.joining("door", 10), client.call("leave", client.to_leave("door", 10)));
    let joined = soon("no answer", joining).await.expect_err("it was lost");
    assert_eq!((joined.kind, joined.effect), (FailureKind::Broken, Effect::Unknown));
    let left = soon("no answer", leaving).await.expect_err("it was not sent");
    assert!(left.kind == FailureKind::Broken && client.wire.is_over(), "{left}");
    // What was asked and given up before: the connection is over all the same.
    let client = open_over(Delayed::new(pool(&server), "join"), 2).await;
    drop(client.joining("door", 20));
    soon("its end", client.wire.over()).await;
}

/// Whether a call that comes late changes anything: behind its withdrawal, over a connection that is not its session's
/// latest. Ours stands then, and a place that a second client has.
async fn a_late_call_does_harm(server: &Server, session: u128, function: &'static str) -> bool {
    let other = server.open(session + 1).await;
    let delayed = Delayed::new(pool(server), function);
    let first = open_over(delayed.clone(), session).await;
    let (given_up, ours, theirs) = (session << 8, session << 8 | 1, session << 8 | 2);
    let arguments = match function {
        "join" => first.to_join("door", &[given_up], &[0]),
        "leave" => {
            first.join("door", given_up).await;
            first.to_leave("door", given_up)
        }
        _ => first.to_beat(1, 1_000, [&[], &[]], 0),
    };
    soon("no answer", first.call(function, arguments)).await.expect_err("it was kept back");
    let pool: Arc<dyn PostgresPool> = Arc::new(pool(server));
    let next = open_over(pool, session + 2).await;
    let next = Client { session: first.session, ..next };
    next.ok("resume", next.to_resume(2, 2, &[])).await;
    next.told("leave", next.to_leave("door", given_up)).await;
    let mut joining = next.to_join("door", &[ours], &[0]);
    joining[1] = Argument::Int(2);
    next.ok("join", joining).await;
    other.join("door", theirs).await;
    delayed.come().await;
    let stand = other.queue("door").await;
    // A beat that counts on from the late one would not be the newest.
    let (beats, _) = next.told("beat", next.to_beat(2, 3, [&[ours], &[]], 0)).await;
    next.close().await;
    other.close().await;
    stand != [ours, theirs] || beats != "ok"
}

#[tokio::test]
async fn a_call_that_comes_late_over_another_connection_changes_nothing() {
    let Some(server) = server(Kind::Postgres).await else { return };
    server.open(7).await.close().await;
    for (number, function) in (1..).zip(["join", "leave", "beat"]) {
        assert!(!a_late_call_does_harm(&server, 10 * number, function).await, "{function}");
    }
    for (session, function, check, without) in [
        (100, "join", "o.id = p_session AND o.epoch = p_epoch", "o.id = p_session"),
        (110, "leave", "c.ticket = p_ticket AND (c.session = p_session OR c.session IS NULL)", "c.session = p_session"),
        (120, "beat", "s.epoch = p_epoch AND s.beat < p_beat", "s.beat < p_beat"),
    ] {
        server.plant(&[(check, without)]).await;
        assert!(a_late_call_does_harm(&server, session, function).await, "without its check, {function}");
    }
}
