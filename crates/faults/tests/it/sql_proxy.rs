//! The proxy between real clients and real databases: single replies and statements are lost.

use lockkeeper_faults::proxy::{AfterDrop, Proxy};
use lockkeeper_faults::wait::PATIENCE;
use lockkeeper_faults::{mariadb, postgres};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tokio_postgres::{Client, NoTls};

async fn connected(server: &postgres::Server, proxy: &Proxy) -> Client {
    let way = server.url("postgres").replace(&server.address().to_string(), &proxy.address().to_string());
    let (client, connection) = tokio_postgres::connect(&way, NoTls).await.expect("connected");
    // It ends with its connection.
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_acts_and_its_client_does_not_hear_of_it() {
    if !postgres::availability().or_skip("sql_proxy::postgres_acts_and_its_client_does_not_hear_of_it") {
        return;
    }
    let server = postgres::Server::standalone().await.expect("a server");
    let proxy = Proxy::of_postgres(server.address()).await.expect("a proxy");
    server.ask("CREATE TABLE joined (number int CHECK (number > 0))").await.expect("made");
    let client = connected(&server, &proxy).await;
    let lost = proxy.drop_next_reply_to("INSERT INTO joined", AfterDrop::Close);
    let join = "INSERT INTO joined VALUES ($1)";
    // A prepared statement; one that fails; a call that is sent while it is answered.
    client.execute(join, &[&0]).await.expect_err("the check");
    let (looked, joined) = tokio::join!(client.simple_query("SELECT 1"), client.execute(join, &[&1]));
    assert!(looked.is_ok() && joined.is_err());
    assert_eq!(lost.happened(PATIENCE).await.expect("lost").text, "");
    let client = connected(&server, &proxy).await;
    let lost = proxy.drop_next_statement("INSERT", AfterDrop::Close);
    client.batch_execute("INSERT INTO joined VALUES (2)").await.expect_err("lost");
    assert_eq!(lost.happened(PATIENCE).await.expect("lost").text, "INSERT INTO joined VALUES (2)");
    assert_eq!(server.value("SELECT string_agg(number::text, ' ') FROM joined").await.expect("told"), "1");
}

async fn mysql_connected(server: &mariadb::Server, proxy: &Proxy) -> Conn {
    let way = server.url("test").replace(&server.address().to_string(), &proxy.address().to_string());
    // Or it would find out the server's socket, and go around the proxy.
    let way = way.replace("mariadb:", "mysql:") + "?prefer_socket=false";
    Conn::new(Opts::from_url(&way).expect("a URL")).await.expect("connected")
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_acts_and_its_client_does_not_hear_of_it() {
    if !mariadb::availability().or_skip("sql_proxy::mariadb_acts_and_its_client_does_not_hear_of_it") {
        return;
    }
    let server = mariadb::Server::standalone().await.expect("a server");
    let proxy = Proxy::of_mysql(server.address()).await.expect("a proxy");
    server.create_database("test", "utf8mb4").await.expect("made");
    server.ask_in("test", "CREATE TABLE joined (number int PRIMARY KEY)").await.expect("made");
    let body = "INSERT INTO joined VALUES (number); SELECT number; SELECT number FROM joined";
    let procedure = format!("CREATE PROCEDURE joins(number int) BEGIN {body}; END");
    server.ask_in("test", &procedure).await.expect("made");
    server.ask_in("test", "CALL joins(7)").await.expect("joined");
    let mut client = mysql_connected(&server, &proxy).await;
    let lost = proxy.drop_next_reply_to("CALL joins", AfterDrop::Close);
    client.exec_drop("CALL joins(?)", (7,)).await.expect_err("a duplicate");
    assert_eq!(client.query_first::<u8, _>("SELECT 1").await.expect("an answer"), Some(1));
    client.exec_drop("CALL joins(?)", (1,)).await.expect_err("lost");
    lost.happened(PATIENCE).await.expect("lost");
    let mut client = mysql_connected(&server, &proxy).await;
    let lost = proxy.drop_next_statement("CALL joins", AfterDrop::Close);
    client.query_drop("CALL joins(2)").await.expect_err("lost");
    assert_eq!(lost.happened(PATIENCE).await.expect("lost").text, "CALL joins(2)");
    assert_eq!(server.value("SELECT group_concat(number) FROM test.joined").await.expect("told"), "1,7");
}
