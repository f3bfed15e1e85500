//! Greetings: what a server says of itself, and which users are refused and why.

use lockkeeper_session::FailureKind;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::engine::{Engine, Waking};
use crate::mysql::greeting::{Schema, grants};
use crate::mysql::open::{access, begin, greet, greet_in_steps};
use crate::mysql::tests::support::{
    Client, can_run, connect, deadline, engine, refused, server, soon, url, url_of_user,
};
use crate::mysql::text::VERSION;
use crate::url::Config;

#[tokio::test]
async fn a_server_is_the_same_instance_to_each_client_and_its_waiters_wait_at_doors() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let (first, second) = (Client::connect(&url(&server), 1).await, Client::connect(&url(&server), 2).await);
    assert_eq!(first.greeting, second.greeting);
    assert_eq!(first.greeting.waking, Waking::Doors);
    assert!(!first.greeting.instance.is_empty());
}

#[tokio::test]
async fn a_user_that_may_execute_our_procedures_may_lock_and_read_no_table() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let app = url_of_user(&server, "app").await;
    refused(&app, FailureKind::Refused, &["lockkeeper setup"]).await;
    refused(&format!("{app}?setup=never"), FailureKind::Settings, &["lockkeeper setup"]).await;
    soon("a set-up", engine(&url(&server)).set_up(deadline())).await.expect("the schema");
    let grants = grants("lockkeeper", "app@%");
    refused(&app, FailureKind::Refused, &[&grants]).await;
    for grant in grants.split_inclusive(';') {
        server.ask(grant).await.expect("the rights");
    }
    let client = Client::open(&app, 1).await;
    client.join("door", 10).await;
    assert_eq!(client.leave("door", 10).await, "left");
    let rights = server.ask("SHOW GRANTS FOR app").await.expect("its rights");
    assert!(rights.iter().flatten().flatten().all(|right| !right.contains("SELECT")), "{rights:?}");
}

#[tokio::test]
async fn a_wrong_password_is_refused_in_one_line() {
    if !can_run() {
        return;
    }
    let server = server().await;
    url_of_user(&server, "app").await;
    refused(&server.url_as("app", Some("guess"), ""), FailureKind::Refused, &["app", "password"]).await;
}

/// What a connection's settings are, as far as the greeting changes them.
async fn settings_of(connection: &mut Conn) -> (u64, u64, f64) {
    let asked = "SELECT @@SESSION.lock_wait_timeout, @@SESSION.wait_timeout, @@SESSION.max_statement_time";
    connection.query_first(asked).await.expect("an answer").expect("a row")
}

#[tokio::test]
async fn a_greeting_in_one_message_and_one_in_steps_find_the_same() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let url = url(&server);
    drop(soon("a connection", connect(&url)).await.expect("the schema is made"));
    let config = Config::from_url(&url.parse().expect("a URL")).expect("a good URL");
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

#[tokio::test]
async fn a_client_that_comes_before_a_schema_is_complete_waits_for_its_making() {
    if !can_run() {
        return;
    }
    let server = server().await;
    drop(soon("a connection", connect(&url(&server))).await.expect("the schema is made"));
    // All procedures are there, and what comes last is not.
    server.ask("DELETE FROM lockkeeper.meta").await.expect("no version");
    let never = format!("{}&setup=never", url(&server));
    refused(&never, FailureKind::Unsupported, &["incomplete", "lockkeeper setup"]).await;
    let client = Client::open(&url(&server), 1).await;
    client.join("door", 10).await;
    assert_eq!(client.leave("door", 10).await, "left");
}
