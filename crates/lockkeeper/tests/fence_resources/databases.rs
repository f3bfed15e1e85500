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
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::rounds::{can_run, compare, ledger, steps, tokens};

/// A connection to a database.
pub(crate) trait Database: Send {
    /// What begins a transaction.
    const BEGIN: &str = "BEGIN";

    /// Executes what has no answer.
    fn say(&mut self, sql: &str) -> impl Future<Output = ()> + Send;

    /// Binds a token, its turn too where pairs are compared; whether it passes.
    fn bind(
        &mut self,
        to: &Statements,
        name: &str,
        grant: i64,
        turn: Option<u32>,
    ) -> impl Future<Output = Result<bool, String>> + Send;

    /// The texts of an answer of one column.
    fn column(&mut self, sql: &str) -> impl Future<Output = Vec<String>> + Send;
}

/// A database that processes connect to.
pub(crate) trait Place: Send + Sync {
    type Client: Database;

    fn connect(&self) -> impl Future<Output = Self::Client> + Send;

    async fn restart(&mut self);
}

impl Database for tokio_postgres::Client {
    async fn say(&mut self, sql: &str) {
        self.batch_execute(sql).await.unwrap();
    }

    async fn bind(&mut self, to: &Statements, name: &str, grant: i64, turn: Option<u32>) -> Result<bool, String> {
        let rows = match turn.map(i64::from) {
            Some(turn) => self.query(to.bind, &[&name, &grant, &turn]).await,
            None => self.query(to.bind, &[&name, &grant]).await,
        };
        rows.map(|rows| !rows.is_empty()).map_err(|error| error.to_string())
    }

    async fn column(&mut self, sql: &str) -> Vec<String> {
        let answer = self.simple_query(sql).await.unwrap();
        let text = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        answer.iter().filter_map(text).collect()
    }
}

impl Place for postgres::Server {
    type Client = tokio_postgres::Client;

    async fn connect(&self) -> Self::Client {
        let (client, connection) = tokio_postgres::connect(&self.url("postgres"), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn restart(&mut self) {
        Self::restart(self).await.unwrap();
    }
}

impl Database for mysql_async::Conn {
    async fn say(&mut self, sql: &str) {
        self.query_drop(sql).await.unwrap();
    }

    async fn bind(&mut self, to: &Statements, name: &str, grant: i64, turn: Option<u32>) -> Result<bool, String> {
        let mut all: Vec<mysql_async::Value> = vec![name.into(), grant.into()];
        all.extend(turn.map(Into::into));
        let parameters = mysql_async::Params::Positional(all);
        let bound = self.exec_drop(to.bind, parameters.clone()).await;
        bound.map_err(|error| error.to_string())?;
        let confirmed: Option<i64> = self.exec_first(to.confirm.unwrap(), parameters).await.unwrap();
        Ok(confirmed.is_some())
    }

    async fn column(&mut self, sql: &str) -> Vec<String> {
        self.query(sql).await.unwrap()
    }
}

impl Place for mariadb::Server {
    type Client = mysql_async::Conn;

    async fn connect(&self) -> Self::Client {
        self.ask("CREATE DATABASE IF NOT EXISTS test").await.unwrap();
        let url = self.url("test").replace("mariadb://", "mysql://");
        mysql_async::Conn::new(mysql_async::Opts::from_url(&url).unwrap()).await.unwrap()
    }

    async fn restart(&mut self) {
        Self::restart(self).await.unwrap();
    }
}

/// An overtaken holder writes no row in a fenced transaction. The key numbers the rows of a ledger.
pub(crate) async fn writes_no_row(resource: &str, place: &impl Place, statements: &Statements, key: &str) {
    // Each holder has its own connection, as in its own process.
    let clients = [Mutex::new(place.connect().await), Mutex::new(place.connect().await)];
    let mut client = clients[0].lock().await;
    client.say(statements.table).await;
    for is_fenced in [true, false] {
        client.say(&format!("CREATE TABLE {} (at {key}, token text)", ledger(is_fenced))).await;
    }
    drop(client);
    let memory = MemoryService::new(Arc::new(lockkeeper::clock::RuntimeClock::new()));
    let keepers: [Keeper; 2] = [memory.keeper(), memory.keeper()];
    let write = async |hold: &Hold, pause: u32, is_fenced: bool| {
        steps(pause).await;
        let token = hold.fencing_token();
        let mut client = match clients[0].try_lock() {
            Ok(client) => client,
            Err(_) => clients[1].lock().await,
        };
        begin(&mut *client).await;
        if is_fenced {
            let name = hold.name().encoded();
            if !client.bind(statements, &name, token.as_i64(), Some(token.turn())).await.unwrap() {
                client.say("ROLLBACK").await;
                return false;
            }
        }
        client.say(&format!("INSERT INTO {} (token) VALUES ('{token}')", ledger(is_fenced))).await;
        client.say("COMMIT").await;
        true
    };
    let written = async |is_fenced| {
        let select = format!("SELECT token FROM {} ORDER BY at", ledger(is_fenced));
        tokens(clients[0].lock().await.column(&select).await.iter().map(String::as_str))
    };
    compare(resource, &keepers, write, written).await;
}

async fn begin<Client: Database>(client: &mut Client) {
    client.say(Client::BEGIN).await;
}

/// Clients that make the table of the greatest tokens at once, as a fleet does that begins.
const FLEET: usize = 6;

/// How often they do: without an order among them, three rounds in ten failed on PostgreSQL.
const BEGINNINGS: u32 = 30;

/// Many make the table at once, and none fails.
pub(crate) async fn is_made_by_many_at_once<Client: Database + 'static>(
    place: &impl Place<Client = Client>,
    statements: &'static Statements,
) {
    let mut clients = Vec::new();
    for _ in 0..FLEET {
        clients.push(place.connect().await);
    }
    for _ in 0..BEGINNINGS {
        clients[0].say("DROP TABLE IF EXISTS lk_fence").await;
        let making = clients.into_iter().map(|mut client| {
            tokio::spawn(async move {
                client.say(statements.table).await;
                client
            })
        });
        let making: Vec<_> = making.collect();
        clients = Vec::new();
        for made in making {
            clients.push(made.await.expect("it fails for none"));
        }
        assert_eq!(clients[0].bind(statements, "x", 1, None).await, Ok(true));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_fleet_makes_the_table_of_postgresql_at_once_and_none_fails() {
    if can_run(postgres::availability()) {
        is_made_by_many_at_once(&postgres::Setup::new().start().await.unwrap(), &sql::POSTGRES).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_fleet_makes_the_table_of_mariadb_at_once_and_none_fails() {
    if can_run(mariadb::availability()) {
        is_made_by_many_at_once(&mariadb::Setup::new().start().await.unwrap(), &sql::MYSQL).await;
    }
}

/// What a table of greatest tokens is shown, and whether it passes: in the form for the grant, and in that for pairs.
const SHOWN: [(&str, &str, bool, bool); 9] = [
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

/// Tokens of each lock are compared, by grants and by pairs, and kept over a restart.
pub(crate) async fn compares_and_keeps(place: &mut impl Place, forms: [&Statements; 2]) {
    for (statements, is_pair) in forms.into_iter().zip([false, true]) {
        let mut client = place.connect().await;
        client.say("DROP TABLE IF EXISTS lk_fence").await;
        client.say(statements.table).await;
        for (name, token, by_grant, by_pair) in SHOWN {
            let token: FencingToken = token.parse().unwrap();
            begin(&mut client).await;
            let bound = client.bind(statements, name, token.as_i64(), is_pair.then(|| token.turn())).await;
            client.say("COMMIT").await;
            assert_eq!(bound, Ok(if is_pair { by_pair } else { by_grant }), "{name} {token}, a pair: {is_pair}");
        }
        client.bind(statements, "z", -1, is_pair.then_some(0)).await.expect_err("no token is negative");
        drop(client);
        place.restart().await;
        let mut client = place.connect().await;
        assert_eq!(client.bind(statements, "x", i64::MAX - 1, is_pair.then_some(9)).await, Ok(false));
        let names = client.column("SELECT name FROM lk_fence").await;
        assert_eq!(names.len(), 3, "{names:?}");
    }
}

#[tokio::test]
async fn an_overtaken_holder_writes_no_row_of_postgresql_in_a_fenced_transaction() {
    if can_run(postgres::availability()) {
        let server = postgres::Setup::new().start().await.unwrap();
        writes_no_row("PostgreSQL", &server, &sql::POSTGRES_PAIR, "bigint GENERATED ALWAYS AS IDENTITY").await;
    }
}

#[tokio::test]
async fn postgresql_compares_tokens_of_each_lock_and_keeps_them_over_a_restart() {
    if can_run(postgres::availability()) {
        let mut server = postgres::Setup::new().start().await.unwrap();
        compares_and_keeps(&mut server, [&sql::POSTGRES, &sql::POSTGRES_PAIR]).await;
    }
}

#[tokio::test]
async fn an_overtaken_holder_writes_no_row_of_mariadb_in_a_fenced_transaction() {
    if can_run(mariadb::availability()) {
        let server = mariadb::Setup::new().start().await.unwrap();
        writes_no_row("MariaDB", &server, &sql::MYSQL_PAIR, "bigint AUTO_INCREMENT PRIMARY KEY").await;
    }
}

#[tokio::test]
async fn mariadb_compares_tokens_of_each_lock_and_keeps_them_over_a_restart() {
    if can_run(mariadb::availability()) {
        let mut server = mariadb::Setup::new().start().await.unwrap();
        compares_and_keeps(&mut server, [&sql::MYSQL, &sql::MYSQL_PAIR]).await;
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
    let operator = server.connect().await;
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
    let tokens = PostgresTokens(Arc::new(server.connect().await));
    for (name, token, _, by_pair) in SHOWN {
        let seen = tokens.see(&name.parse().unwrap(), token.parse().unwrap()).await.unwrap();
        assert_eq!(seen == Seen::Passes, by_pair, "{name} {token}: {seen:?}");
    }
    let stale = tokens.see(&"y".parse().unwrap(), "6.9".parse().unwrap()).await.unwrap();
    assert_eq!(stale, Seen::Stale("7".parse().unwrap()));
}
