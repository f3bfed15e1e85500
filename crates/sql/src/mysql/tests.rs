//! A greeting of MariaDB, at once and in steps.

use lockkeeper_conformance::SOON;
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_faults::mariadb::{Server, availability};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::engine::Intent;
use crate::engine::greeting::Schema;
use crate::mysql::VERSION;
use crate::mysql::open::{access, begin, greet, greet_in_steps};
use crate::url::Config;

/// What a connection's settings are, as far as the greeting changes them.
async fn settings_of(connection: &mut Conn) -> (u64, u64, f64) {
    let asked = "SELECT @@SESSION.lock_wait_timeout, @@SESSION.wait_timeout, @@SESSION.max_statement_time";
    connection.query_first(asked).await.expect("an answer").expect("a row")
}

#[tokio::test]
async fn a_greeting_in_one_message_and_one_in_steps_find_the_same() {
    if !availability().or_skip("mysql::tests::a_greeting_in_one_message_and_one_in_steps_find_the_same") {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let config = std::sync::Arc::new(Config::from_url(&server.url("").parse().expect("a URL")).expect("a good URL"));
    let clock: std::sync::Arc<dyn Clock> = std::sync::Arc::new(SystemClock);
    let deadline = SystemClock.now().saturating_add(SOON);
    let engine = crate::engines::of(&config, &clock).expect("MariaDB");
    drop(engine.connect(&config.servers[0], deadline, Intent::Serve).await.expect("the schema is made"));
    let access = access(&config, &config.servers[0]).expect("a way");
    let settings = "SET SESSION lock_wait_timeout = 7, wait_timeout = 77 /*M! , max_statement_time = 1.5 */";
    let (mut first, mut second) = (begin(&access).await.expect("it is open"), begin(&access).await.expect("so too"));
    let at_once = greet(&config, &mut first, settings).await.expect("a greeting");
    let in_steps = greet_in_steps(&config, &mut second, settings).await.expect("a greeting");
    assert_eq!(at_once.server.greeting(&config), in_steps.server.greeting(&config));
    assert_eq!(at_once.server.user, in_steps.server.user);
    for greeted in [&at_once, &in_steps] {
        assert_eq!(greeted.found.check(&config.schema).expect("it is ours"), Schema::Ready);
        assert_eq!(greeted.version, Some(VERSION));
    }
    for connection in [&mut first, &mut second] {
        assert_eq!(settings_of(connection).await, (7, 77, 1.5));
    }
}
