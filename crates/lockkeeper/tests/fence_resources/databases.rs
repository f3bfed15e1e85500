//! Data in databases, by the texts of `fence::sql`.

use std::sync::Arc;

use lockkeeper::backend::BoxFuture;
use lockkeeper::fence::sql::{self, Statements};
use lockkeeper::fence::{Seen, TokenStore};
use lockkeeper::testing::MemoryService;
use lockkeeper::{ErrorKind, FencingToken, Hold, Keeper, Operation, QueueName};
use lockkeeper_faults::wait::{self, PATIENCE};
use lockkeeper_faults::{mariadb, postgres};
use mysql_async::prelude::Queryable as _;
use tokio::sync::Mutex;
use tokio_postgres::NoTls;

use crate::rounds::{can_run, judge, play, steps, tokens};

pub(crate) const LEDGERS: [&str; 2] = ["fenced", "plain"];

fn keepers() -> [Keeper; 2] {
    let memory = MemoryService::new(Arc::new(lockkeeper::clock::RuntimeClock::new()));
    [memory.keeper(), memory.keeper()]
}

async fn postgres_client(server: &postgres::Server) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&server.url("postgres"), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Binds a token in a transaction of PostgreSQL; whether it passes.
async fn bind(
    transaction: &tokio_postgres::Transaction<'_>,
    statements: &Statements,
    name: &str,
    (grant, turn): (i64, Option<i64>),
) -> Result<bool, tokio_postgres::Error> {
    let rows = match &turn {
        Some(turn) => transaction.query(statements.bind, &[&name, &grant, turn]).await?,
        None => transaction.query(statements.bind, &[&name, &grant]).await?,
    };
    Ok(!rows.is_empty())
}

#[tokio::test]
async fn an_overtaken_holder_writes_no_row_of_postgresql_in_a_fenced_transaction() {
    if !can_run(postgres::availability()) {
        return;
    }
    let server = postgres::Setup::new().start().await.unwrap();
    server.ask(sql::POSTGRES_PAIR.table).await.unwrap();
    for ledger in LEDGERS {
        let table = format!("CREATE TABLE {ledger} (at bigint GENERATED ALWAYS AS IDENTITY, token text)");
        server.ask(&table).await.unwrap();
    }
    let keepers = keepers();
    // Each holder has its own connection, as in its own process.
    let clients = [Mutex::new(postgres_client(&server).await), Mutex::new(postgres_client(&server).await)];
    let write = async |ledger: &str, hold: &Hold, pause: u32, is_fenced: bool| {
        steps(pause).await;
        let token = hold.fencing_token();
        let mut client = match clients[0].try_lock() {
            Ok(client) => client,
            Err(_) => clients[1].lock().await,
        };
        let transaction = client.transaction().await.unwrap();
        if is_fenced {
            let pair = (token.as_i64(), Some(i64::from(token.turn())));
            if !bind(&transaction, &sql::POSTGRES_PAIR, &hold.name().encoded(), pair).await.unwrap() {
                transaction.rollback().await.unwrap();
                return false;
            }
        }
        let insert = format!("INSERT INTO {ledger} (token) VALUES ($1)");
        transaction.execute(&insert, &[&token.to_string()]).await.unwrap();
        transaction.commit().await.unwrap();
        true
    };
    play(keepers.each_ref(), async |hold: &Hold, pause| write("fenced", hold, pause, true).await).await;
    play(keepers.each_ref(), async |hold: &Hold, pause| write("plain", hold, pause, false).await).await;
    let mut written = Vec::new();
    for ledger in LEDGERS {
        let rows = server.ask(&format!("SELECT token FROM {ledger} ORDER BY at")).await.unwrap();
        written.push(tokens(rows.iter().map(|row| row[0].as_deref().unwrap())));
    }
    judge("PostgreSQL", &written[0], &written[1]);
}

/// What a table of greatest tokens is shown, and whether it passes: in the form for the grant, and in that for pairs.
pub(crate) const SHOWN: [(&str, &str, bool, bool); 9] = [
    ("x", "41.3", true, true),
    ("x", "41.3", true, true),
    ("x", "41.2", true, false),
    ("x", "40.9", false, false),
    ("y", "7", true, true),
    ("x", "42", true, true),
    ("x", "41.9", false, false),
    ("X", "1", true, true),
    ("x", "9223372036854775807.1", true, true),
];

#[tokio::test]
async fn postgresql_compares_tokens_of_each_lock_and_keeps_them_over_a_restart() {
    if !can_run(postgres::availability()) {
        return;
    }
    let mut server = postgres::Setup::new().start().await.unwrap();
    for statements in [sql::POSTGRES, sql::POSTGRES_PAIR] {
        let is_pair = statements == sql::POSTGRES_PAIR;
        server.ask("DROP TABLE IF EXISTS lk_fence").await.unwrap();
        server.ask(statements.table).await.unwrap();
        let mut client = postgres_client(&server).await;
        for (name, token, by_grant, by_pair) in SHOWN {
            let token: FencingToken = token.parse().unwrap();
            let turn = is_pair.then(|| i64::from(token.turn()));
            let transaction = client.transaction().await.unwrap();
            let passes = bind(&transaction, &statements, name, (token.as_i64(), turn)).await.unwrap();
            transaction.commit().await.unwrap();
            assert_eq!(passes, if is_pair { by_pair } else { by_grant }, "{name} {token}, a pair: {is_pair}");
        }
        let transaction = client.transaction().await.unwrap();
        bind(&transaction, &statements, "z", (-1, is_pair.then_some(0))).await.expect_err("no token is negative");
        drop(transaction);
        drop(client);
        server.restart().await.unwrap();
        let mut client = postgres_client(&server).await;
        let transaction = client.transaction().await.unwrap();
        assert!(!bind(&transaction, &statements, "x", (i64::MAX - 1, is_pair.then_some(9))).await.unwrap());
        drop(transaction);
        let rows = server.ask("SELECT name FROM lk_fence ORDER BY name").await.unwrap();
        assert_eq!(rows.len(), 3, "{rows:?}");
    }
}

/// Binds a token in a transaction of MariaDB; whether it passes.
async fn bind_mariadb(
    connection: &mut mysql_async::Conn,
    statements: &Statements,
    parameters: impl Into<mysql_async::Params> + Clone + Send,
) -> mysql_async::Result<bool> {
    connection.exec_drop(statements.bind, parameters.clone()).await?;
    let confirmed: Option<i64> = connection.exec_first(statements.confirm.unwrap(), parameters).await?;
    Ok(confirmed.is_some())
}

async fn mariadb_client(server: &mariadb::Server) -> mysql_async::Conn {
    let url = server.url("test").replace("mariadb://", "mysql://");
    mysql_async::Conn::new(mysql_async::Opts::from_url(&url).unwrap()).await.unwrap()
}

#[tokio::test]
async fn an_overtaken_holder_writes_no_row_of_mariadb_in_a_fenced_transaction() {
    if !can_run(mariadb::availability()) {
        return;
    }
    let server = mariadb::Setup::new().start().await.unwrap();
    server.ask("CREATE DATABASE IF NOT EXISTS test").await.unwrap();
    server.ask_in("test", sql::MYSQL_PAIR.table).await.unwrap();
    for ledger in LEDGERS {
        let table = format!("CREATE TABLE {ledger} (at bigint AUTO_INCREMENT PRIMARY KEY, token text)");
        server.ask_in("test", &table).await.unwrap();
    }
    let keepers = keepers();
    let clients = [Mutex::new(mariadb_client(&server).await), Mutex::new(mariadb_client(&server).await)];
    let write = async |ledger: &str, hold: &Hold, pause: u32, is_fenced: bool| {
        steps(pause).await;
        let token = hold.fencing_token();
        let mut client = match clients[0].try_lock() {
            Ok(client) => client,
            Err(_) => clients[1].lock().await,
        };
        client.query_drop("BEGIN").await.unwrap();
        if is_fenced {
            let parameters = (hold.name().encoded(), token.as_i64(), token.turn());
            if !bind_mariadb(&mut client, &sql::MYSQL_PAIR, parameters).await.unwrap() {
                client.query_drop("ROLLBACK").await.unwrap();
                return false;
            }
        }
        let insert = format!("INSERT INTO {ledger} (token) VALUES (?)");
        client.exec_drop(insert, (token.to_string(),)).await.unwrap();
        client.query_drop("COMMIT").await.unwrap();
        true
    };
    play(keepers.each_ref(), async |hold: &Hold, pause| write("fenced", hold, pause, true).await).await;
    play(keepers.each_ref(), async |hold: &Hold, pause| write("plain", hold, pause, false).await).await;
    let mut written = Vec::new();
    for ledger in LEDGERS {
        let rows = server.ask_in("test", &format!("SELECT token FROM {ledger} ORDER BY at")).await.unwrap();
        written.push(tokens(rows.iter().map(|row| row[0].as_deref().unwrap())));
    }
    judge("MariaDB", &written[0], &written[1]);
}

#[tokio::test]
async fn mariadb_compares_tokens_of_each_lock_and_keeps_them_over_a_restart() {
    if !can_run(mariadb::availability()) {
        return;
    }
    let mut server = mariadb::Setup::new().start().await.unwrap();
    server.ask("CREATE DATABASE IF NOT EXISTS test").await.unwrap();
    for statements in [sql::MYSQL, sql::MYSQL_PAIR] {
        let is_pair = statements == sql::MYSQL_PAIR;
        server.ask_in("test", "DROP TABLE IF EXISTS lk_fence").await.unwrap();
        server.ask_in("test", statements.table).await.unwrap();
        let parameters = |name: &str, grant: i64, turn: u32| {
            let mut all: Vec<mysql_async::Value> = vec![name.into(), grant.into()];
            all.extend(is_pair.then(|| turn.into()));
            mysql_async::Params::Positional(all)
        };
        let mut client = mariadb_client(&server).await;
        for (name, token, by_grant, by_pair) in SHOWN {
            let token: FencingToken = token.parse().unwrap();
            client.query_drop("BEGIN").await.unwrap();
            let bound = bind_mariadb(&mut client, &statements, parameters(name, token.as_i64(), token.turn()));
            let passes = bound.await.unwrap();
            client.query_drop("COMMIT").await.unwrap();
            assert_eq!(passes, if is_pair { by_pair } else { by_grant }, "{name} {token}, a pair: {is_pair}");
        }
        bind_mariadb(&mut client, &statements, parameters("z", -1, 0)).await.expect_err("no token is negative");
        drop(client);
        server.restart().await.unwrap();
        let mut client = mariadb_client(&server).await;
        assert!(!bind_mariadb(&mut client, &statements, parameters("x", i64::MAX - 1, 9)).await.unwrap());
        let rows = server.ask_in("test", "SELECT name FROM lk_fence").await.unwrap();
        assert_eq!(rows.len(), 3, "{rows:?}");
    }
}

#[tokio::test]
async fn a_removal_waits_for_a_pinned_transaction_and_a_lost_lock_pins_nothing() {
    if !can_run(postgres::availability()) {
        return;
    }
    let server = postgres::Setup::new().start().await.unwrap();
    let keepers =
        [server.url("postgres"), server.url("postgres")].map(|url| lockkeeper::connect(url.as_str()).unwrap());
    let held = keepers[0].mutex("ledger").unwrap().lock().await.unwrap();
    let (pin, ticket) = (sql::postgres_pin("lockkeeper"), held.hold().ticket().to_string());
    // A user of locks may run functions, and read no table.
    server.create_user("app", "secret").await.unwrap();
    let rights = "GRANT USAGE ON SCHEMA lockkeeper TO app; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lockkeeper TO app";
    server.ask(rights).await.unwrap();
    let url = server.url_as("app", Some("secret"), "postgres");
    let (app, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    assert!(app.simple_query("SELECT * FROM lockkeeper.contender").await.is_err());

    app.simple_query("BEGIN").await.unwrap();
    assert_eq!(app.query(&pin, &[&ticket]).await.unwrap().len(), 1);
    let operator = postgres_client(&server).await;
    let removal = tokio::spawn(async move { operator.simple_query("DELETE FROM lockkeeper.contender").await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE%'";
    let is_waiting = async || (server.value(waits).await.ok()? == "1").then_some(());
    wait::until("the removal to wait", PATIENCE, is_waiting).await.unwrap();
    let granted = keepers[1].mutex("ledger").unwrap().try_lock().await.unwrap();
    assert!(granted.is_none() && !removal.is_finished(), "nothing is granted before the transaction ends");
    app.simple_query("COMMIT").await.unwrap();
    removal.await.unwrap().unwrap();
    assert!(app.query(&pin, &[&ticket]).await.unwrap().is_empty(), "the lock is lost");
    let next = tokio::time::timeout(PATIENCE, keepers[1].mutex("ledger").unwrap().lock()).await.unwrap().unwrap();
    next.release().await.unwrap();
}

/// The greatest tokens of a fence before another resource, in PostgreSQL.
#[derive(Debug)]
struct PostgresTokens(Arc<tokio_postgres::Client>);

impl TokenStore for PostgresTokens {
    fn see(&self, name: &QueueName, token: FencingToken) -> BoxFuture<lockkeeper::Result<Seen>> {
        let (client, name) = (self.0.clone(), name.encoded());
        Box::pin(async move {
            let failed = |error| {
                let message = "the greatest token cannot be kept";
                lockkeeper::Error::unknown(ErrorKind::Backend, Operation::Configure, message).caused_by(error)
            };
            let turn = i64::from(token.turn());
            let bound = client.query_opt(sql::POSTGRES_PAIR.bind, &[&name, &token.as_i64(), &turn]).await;
            if bound.map_err(failed)?.is_some() {
                return Ok(Seen::Passes);
            }
            let greatest = client.query_one("SELECT grant_no, turn FROM lk_fence WHERE name = $1", &[&name]).await;
            let (grant, turn): (i64, i64) = greatest.map(|row| (row.get(0), row.get(1))).map_err(failed)?;
            let greatest = FencingToken::new(grant.cast_unsigned(), u32::try_from(turn).unwrap_or(u32::MAX));
            Ok(Seen::Stale(greatest.expect("the table has no negative number")))
        })
    }
}

#[tokio::test]
async fn the_texts_make_a_store_for_the_fence_of_another_resource() {
    if !can_run(postgres::availability()) {
        return;
    }
    let server = postgres::Setup::new().start().await.unwrap();
    server.ask(sql::POSTGRES_PAIR.table).await.unwrap();
    let tokens = PostgresTokens(Arc::new(postgres_client(&server).await));
    for (name, token, _, by_pair) in SHOWN {
        let seen = tokens.see(&name.parse().unwrap(), token.parse().unwrap()).await.unwrap();
        assert_eq!(seen == Seen::Passes, by_pair, "{name} {token}: {seen:?}");
    }
    let stale = tokens.see(&"y".parse().unwrap(), "6.9".parse().unwrap()).await.unwrap();
    assert_eq!(stale, Seen::Stale("7".parse().unwrap()));
}
