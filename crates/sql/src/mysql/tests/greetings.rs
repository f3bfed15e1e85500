//! Greetings: what a server says of itself, and which users are refused and why.

use crate::engine::{Engine, Waking};
use crate::failure::FailureKind;
use crate::mysql::greeting::grants;
use crate::mysql::tests::support::{Client, can_run, deadline, engine, refused, server, soon, url, url_of_user};

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
