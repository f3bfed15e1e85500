//! The harness of PgBouncer against the real thing: each test needs Debian's packages, and skips by name without.

use lockkeeper_faults::pgbouncer::{Lending, PgBouncer, availability};
use lockkeeper_faults::postgres::{Server, Setup};
use tokio_postgres::{Client, NoTls};

/// A server where a pooler can be before it.
async fn server(setup: Setup) -> Option<Server> {
    if availability().or_skip_here() { Server::start_or_skip(setup).await } else { None }
}

async fn connected(way: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(way, NoTls).await.expect("connected");
    // It ends with its connection.
    tokio::spawn(connection);
    client
}

/// The process of the server that works for a client.
async fn worker(client: &Client) -> i32 {
    let told = client.simple_query("SELECT pg_backend_pid()").await.expect("told");
    let row = told.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    row.expect("a row").parse().expect("a number")
}

async fn use_one_connection(server: &Server, lending: Lending) -> bool {
    let pooler = PgBouncer::start(server, lending, 2).await.expect("a pooler");
    let (first, second) = (connected(&pooler.url("postgres")).await, connected(&pooler.url("postgres")).await);
    worker(&first).await == worker(&second).await
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_share_a_connection_if_it_is_lent_for_a_transaction() {
    let Some(server) = server(Setup::new()).await else { return };
    assert!(use_one_connection(&server, Lending::Transaction).await);
    assert!(!use_one_connection(&server, Lending::Session).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_the_server_log_in_with_their_passwords_also_after_both_restarted() {
    let Some(mut server) = server(Setup::new().password("secret")).await else { return };
    let mut pooler = PgBouncer::start(&server, Lending::Transaction, 2).await.expect("a pooler");
    server.create_user("ann", "hers").await.expect("made");
    server.restart().await.expect("it serves");
    pooler.restart().await.expect("it listens");
    for way in [pooler.url("postgres"), pooler.url_as("ann", Some("hers"), "postgres")] {
        worker(&connected(&way).await).await;
    }
    for way in [pooler.url_as("ann", Some("secret"), "postgres"), server.url_as("ann", Some("his"), "postgres")] {
        assert!(tokio_postgres::connect(&way, NoTls).await.is_err(), "{way} let us in");
    }
}
