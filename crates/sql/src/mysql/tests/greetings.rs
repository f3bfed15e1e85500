//! Greetings: what a server says of itself, and which users are refused and why.

use lockkeeper_faults::mariadb::Server;

use crate::engine::{Engine, Waking};
use crate::failure::FailureKind;
use crate::mysql::greeting::grants;
use crate::mysql::tests::support::{Client, can_run, connect, deadline, engine, server, soon, url};

/// The URL of an ordinary user's way to a server, which that user was made for.
async fn url_of_user(server: &Server, user: &str) -> String {
    server.ask(&format!("CREATE USER {user}@'%' IDENTIFIED BY 'secret'")).await.expect("a user");
    server.url_as(user, Some("secret"), "")
}

/// Makes sure that a URL is refused, in one line that says all this.
async fn refused(url: &str, kind: FailureKind, says: &[&str]) {
    let failure = soon("a refusal", connect(url)).await.expect_err("it is refused");
    let told = failure.to_string();
    assert_eq!(failure.kind, kind, "{told}");
    assert!(!told.contains('\n'), "{told}");
    for text in says {
        assert!(told.contains(text), "`{text}` is not in: {told}");
    }
}

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
