//! How many round trips a command costs.

use std::net::SocketAddr;

use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::{mariadb, postgres};

use crate::few_round_trips::{Most, assert_at_most};

/// On both.
const MOST: Most = Most { until_start: 3, until_end: 1 };

/// A server's URL, by way of a proxy.
fn by_way_of(proxy: &Proxy, url: &str, server: SocketAddr) -> String {
    url.replace(&server.to_string(), &proxy.address().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_a_free_lock_starts_within_four_round_trips_on_postgresql() {
    if !postgres::availability()
        .or_skip("round_trips::a_command_on_a_free_lock_starts_within_four_round_trips_on_postgresql")
    {
        return;
    }
    let server = postgres::Server::standalone().await.expect("a server");
    let proxy = Proxy::of_postgres(server.address()).await.expect("a proxy");
    assert_at_most(MOST, &proxy, &by_way_of(&proxy, &server.url("postgres"), server.address()), "PostgreSQL").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_a_free_lock_starts_within_four_round_trips_on_mariadb() {
    if !mariadb::availability()
        .or_skip("round_trips::a_command_on_a_free_lock_starts_within_four_round_trips_on_mariadb")
    {
        return;
    }
    let server = mariadb::Server::standalone().await.expect("a server");
    let proxy = Proxy::of_mysql(server.address()).await.expect("a proxy");
    assert_at_most(MOST, &proxy, &by_way_of(&proxy, &server.url(""), server.address()), "MariaDB").await;
}
