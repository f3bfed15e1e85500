//! Locks over a pool of sqlx on real PostgreSQL: what they take of it, and what becomes of them where it has nothing
//! free. The conformance suite runs over such a pool too, among the tests of `lockkeeper-sql`.

#[allow(dead_code, reason = "its main is the example's")]
#[path = "../examples/migrations/main.rs"]
mod migrations;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lockkeeper::backend::BoxFuture;
use lockkeeper::fence::sql::{BindError, POSTGRES_PAIR};
use lockkeeper::pool::{PoolError, PostgresPool, TextRow};
use lockkeeper::{ErrorKind, Keeper, LossReason};
use lockkeeper_conformance::{Random, seed, soon, until};
use lockkeeper_faults::postgres::Server;
use lockkeeper_sqlx::{SqlxPool, bind};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

const USERS: usize = 200;
const CONNECTIONS: u32 = 3;

/// What the pool's connections are called in the server's list, and which of them are meant.
const PROGRAM: &str = "program";
const OF_PROGRAM: &str = "application_name = 'program'";
const BUSY: &str = "application_name = 'program' AND state <> 'idle'";
const OURS_ALONE: &str = "application_name = 'lockkeeper'";

fn pool_of(server: &Server, connections: u32) -> PgPool {
    let options = PgConnectOptions::new_without_pgpass()
        .host(&server.address().ip().to_string())
        .port(server.address().port())
        .username("postgres")
        .database("postgres")
        .application_name(PROGRAM);
    PgPoolOptions::new().max_connections(connections).connect_lazy_with(options)
}

fn keeper_over(pool: &PgPool, settings: &str) -> Keeper {
    let url = format!("postgres://app-db?{settings}");
    lockkeeper::pool::connect(SqlxPool::new(pool.clone()), url.as_str()).expect("a good URL")
}

/// How many of the server's connections are so.
async fn connections(server: &Server, condition: &str) -> usize {
    let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE {condition}");
    server.value(&sql).await.expect("an answer").parse().expect("a count")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_users_hold_one_lock_in_turn_over_three_connections() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let pool = pool_of(&server, CONNECTIONS);
    let keeper = keeper_over(&pool, "session_timeout=30s");
    let (inside, granted) = (Arc::new(AtomicUsize::new(0)), Arc::new(parking_lot::Mutex::new(Vec::new())));
    let users: Vec<_> = (0..USERS)
        .map(|_| {
            let (mutex, inside, granted) = (keeper.mutex("invoices").unwrap(), inside.clone(), granted.clone());
            tokio::spawn(async move {
                let guard = mutex.lock().await.expect("a grant");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
                granted.lock().push(guard.fencing_token());
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.expect("it was held");
            })
        })
        .collect();
    let mut most = 0;
    let all = join_all(users);
    tokio::pin!(all);
    loop {
        tokio::select! {
            ended = &mut all => break ended.into_iter().for_each(|user| user.expect("no panic")),
            seen = connections(&server, OF_PROGRAM) => most = most.max(seen),
        }
    }
    assert!(most <= CONNECTIONS as usize, "{most} connections");
    let tokens = std::mem::take(&mut *granted.lock());
    assert!(tokens.len() == USERS && tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    soon("the end", keeper.close()).await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_and_a_wait_keep_no_connection() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let pool = pool_of(&server, CONNECTIONS);
    let keeper = keeper_over(&pool, "session_timeout=30s");
    let mutex = keeper.mutex("invoices").unwrap();
    let guard = soon("a grant", mutex.lock()).await.expect("a grant");
    let waiter = mutex.clone();
    let waiting = tokio::spawn(async move { waiter.lock().await });
    until("a waiter", async || keeper.contenders("invoices").await.is_ok_and(|seen| seen.len() == 2)).await;
    // The program can have all of them at once, and no other one is there.
    let taken = join_all((0..CONNECTIONS).map(|_| soon("a connection", pool.acquire()))).await;
    assert!(taken.iter().all(Result::is_ok));
    assert_eq!(connections(&server, BUSY).await, 0);
    assert_eq!(connections(&server, OURS_ALONE).await, 0);
    drop(taken);
    assert!(guard.hold().is_held());
    guard.release().await.expect("it was held");
    drop(soon("the next grant", waiting).await.expect("no panic").expect("a grant"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_dropped_leave_the_pool_and_the_queue_whole() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (pool, seed) = (pool_of(&server, CONNECTIONS), seed());
    let keeper = keeper_over(&pool, "session_timeout=30s");
    let mutex = keeper.mutex("invoices").unwrap();
    let guard = soon("a grant", mutex.lock()).await.expect("a grant");
    let mut random = Random::new(seed);
    let calls = (0..USERS).map(|_| {
        let (mutex, within) = (mutex.clone(), Duration::from_micros(random.below(50_000)));
        async move { drop(tokio::time::timeout(within, mutex.lock()).await) }
    });
    join_all(calls).await;
    until("the queue to be left", async || keeper.contenders("invoices").await.is_ok_and(|seen| seen.len() == 1)).await;
    let taken = join_all((0..CONNECTIONS).map(|_| soon("a connection", pool.acquire()))).await;
    assert!(taken.iter().all(Result::is_ok), "seed {seed}");
    assert_eq!(connections(&server, BUSY).await, 0, "seed {seed}");
    drop(taken);
    guard.release().await.expect("it was held");
    drop(soon("a grant", mutex.lock()).await.expect("a grant"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_is_enough() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let keeper = keeper_over(&pool_of(&server, 1), "session_timeout=30s");
    let users = (0..10).map(|_| {
        let mutex = keeper.mutex("invoices").unwrap();
        async move { soon("a grant", mutex.lock()).await.expect("a grant").release().await.expect("it was held") }
    });
    join_all(users).await;
    soon("the end", keeper.close()).await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_lost_where_the_program_keeps_all_connections_and_the_next_error_says_why() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let pool = pool_of(&server, 1);
    let keeper = keeper_over(&pool, "session_timeout=2s&operation_timeout=2s");
    let mutex = keeper.mutex("invoices").unwrap();
    let guard = soon("a grant", mutex.lock()).await.expect("a grant");
    let transaction = soon("the only connection", pool.begin()).await.expect("a transaction");
    assert_eq!(soon("the loss", guard.hold().lost()).await, LossReason::Lapsed);
    let error = soon("an error", keeper.contenders("invoices")).await.expect_err("there is no connection");
    let told = format!("{error:#}");
    assert!(told.contains("all connections of the pool were in use for 250ms"), "{told}");
    transaction.rollback().await.expect("it is ended");
    drop(guard);
    drop(soon("a grant", mutex.lock()).await.expect("a grant"));
}

#[tokio::test]
async fn a_transaction_of_sqlx_binds_a_token_and_refuses_the_holder_that_was_overtaken() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let pool = pool_of(&server, CONNECTIONS);
    sqlx::raw_sql(POSTGRES_PAIR.table).execute(&pool).await.expect("a table");
    let keeper = keeper_over(&pool, "session_timeout=30s");
    let mutex = keeper.mutex("invoices").unwrap();
    let stale = soon("a grant", mutex.lock()).await.expect("a grant");
    let stale_hold = stale.hold().clone();
    stale.release().await.expect("it was held");
    let guard = soon("a grant", mutex.lock()).await.expect("a grant");
    let mut transaction = pool.begin().await.expect("a transaction");
    bind(&mut transaction, guard.hold()).await.expect("it holds the lock");
    transaction.commit().await.expect("a commit");
    let mut late = pool.begin().await.expect("a transaction");
    let refused = bind(&mut late, &stale_hold).await.expect_err("a later holder was there");
    assert!(matches!(refused, BindError::Overtaken { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_instances_that_start_at_once_one_makes_the_migrations_of_the_example() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let instances = (0..5).map(|_| {
        let pool = pool_of(&server, 1);
        async move {
            let keeper = keeper_over(&pool, "session_timeout=30s");
            soon("the migrations", migrations::migrate(&keeper, &pool)).await.expect("they are made");
        }
    });
    join_all(instances).await;
    assert_eq!(server.value("SELECT count(*) FROM _sqlx_migrations WHERE success").await.expect("a count"), "2");
}

/// A pool that has one connection, in a transaction that its program has begun.
struct InTransaction(Arc<tokio::sync::Mutex<sqlx::PgConnection>>);

impl PostgresPool for InTransaction {
    fn ask(&self, message: String, _: Duration) -> BoxFuture<Result<Vec<TextRow>, PoolError>> {
        let connection = self.0.clone();
        Box::pin(async move {
            let mut connection = connection.lock().await;
            lockkeeper_sqlx::ask(&mut connection, message).await
        })
    }
}

#[tokio::test]
async fn a_connection_in_a_transaction_of_the_program_is_refused() {
    use sqlx::{ConnectOptions as _, Executor as _};

    let Some(server) = Server::standalone_or_skip().await else { return };
    let pool = pool_of(&server, 1);
    // The schema is there.
    let keeper = keeper_over(&pool, "session_timeout=30s");
    drop(soon("a grant", keeper.mutex("invoices").unwrap().lock()).await.expect("a grant"));
    let mut connection = pool.connect_options().connect().await.expect("a connection");
    connection.execute("BEGIN").await.expect("a transaction");
    let one = InTransaction(Arc::new(tokio::sync::Mutex::new(connection)));
    let keeper = lockkeeper::pool::connect(one, "postgres://app-db").expect("a good URL");
    let error = soon("a refusal", keeper.mutex("letters").unwrap().lock()).await.expect_err("it is in a transaction");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:#}");
    assert!(format!("{error:#}").contains("a connection that is in no transaction"), "{error:#}");
}
