//! Many commands on one server: fifty count, twenty are served in the order they joined, and a queue is shown.

use lockkeeper_faults::{figures, mariadb, postgres};

use crate::machine::{COUNT, NOTE, Site};
use crate::support::now;

/// Long enough for commands that are started fifty at once.
const SETTINGS: &str = "session_timeout=30s";

/// How many commands count at once.
const COUNTING: usize = 50;

/// How many are served in order.
const IN_ORDER: usize = 20;

/// Has fifty commands count at once, and asserts that none is lost and that nothing is left.
fn fifty_count(url: &str, who: &str) {
    let site = Site::of(&format!("{url}?{SETTINGS}"));
    site.write("counter", "0\n");
    let begun = now();
    // No command waits for a server that comes back.
    site.succeed((0..COUNTING).map(|_| site.start(&["-q"], "count", COUNT, &["never".to_owned()])).collect());
    assert_eq!(site.read("counter"), format!("{COUNTING}\n"));
    site.assert_nothing_left();
    figures::tell(&format!("{who}: {COUNTING} counted in {:.1} s, none lost", begun.elapsed().as_secs_f64()));
}

/// Has twenty commands join behind a holder one after the other, and asserts their order, what is shown of the queue,
/// and that nothing is left.
fn twenty_in_order(url: &str) {
    let site = Site::of(&format!("{url}?{SETTINGS}"));
    let holder = site.place.hold("order");
    let join = |number: usize| site.join("order", number + 1, NOTE, &[number.to_string(), "never".to_owned()]);
    let commands = (0..IN_ORDER).map(join).collect();
    assert_eq!(site.place.contenders("order"), IN_ORDER + 1);
    holder.end();
    site.succeed(commands);
    let expected: String = (0..IN_ORDER).map(|number| format!("{number}\n")).collect();
    assert_eq!(site.read("served"), expected);
    site.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_on_postgresql_without_losing_one() {
    if !postgres::availability().or_skip("fleet::fifty_commands_count_on_postgresql_without_losing_one") {
        return;
    }
    let server = postgres::Server::standalone().await.expect("a server");
    fifty_count(&server.url("postgres"), "PostgreSQL");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_on_mariadb_without_losing_one() {
    if !mariadb::availability().or_skip("fleet::fifty_commands_count_on_mariadb_without_losing_one") {
        return;
    }
    let server = mariadb::Server::standalone().await.expect("a server");
    fifty_count(&server.url(""), "MariaDB");
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_commands_are_served_on_postgresql_in_the_order_they_joined() {
    if !postgres::availability().or_skip("fleet::twenty_commands_are_served_on_postgresql_in_the_order_they_joined") {
        return;
    }
    let server = postgres::Server::standalone().await.expect("a server");
    twenty_in_order(&server.url("postgres"));
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_commands_are_served_on_mariadb_in_the_order_they_joined() {
    if !mariadb::availability().or_skip("fleet::twenty_commands_are_served_on_mariadb_in_the_order_they_joined") {
        return;
    }
    let server = mariadb::Server::standalone().await.expect("a server");
    twenty_in_order(&server.url(""));
}
