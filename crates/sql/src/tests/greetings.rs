//! Greetings: what a server says of itself, how our schema is made, and which rights are enough.

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, FollowEvent, QueueName, Scope, Scrutiny};
use lockkeeper_session::FailureKind;

use super::client::Client;
use super::server::{Kind, Need, connect, each, each_with, server, site};
use crate::SqlBackend;
use crate::engine::{Intent, WakeMethod};

/// Makes sure that a URL is refused, in one line that says all this.
async fn refused(url: &str, kind: FailureKind, says: &[&str]) {
    let failure = soon("a refusal", connect(url)).await.map(drop).expect_err("it is refused");
    let told = failure.to_string();
    assert_eq!(failure.kind, kind, "{told}");
    assert!(!told.contains('\n'), "{told}");
    for text in says {
        assert!(told.contains(text), "`{text}` is not in: {told}");
    }
}

#[tokio::test]
async fn a_server_is_the_same_instance_to_each_client_and_wakes_waiters_if_they_let_it() {
    for server in each().await {
        let (first, second) = (server.connect(1).await, server.connect(2).await);
        assert_eq!(first.greeting, second.greeting);
        assert_eq!(first.greeting.wake_method, server.either(WakeMethod::Notified, WakeMethod::NamedLocks));
        assert!(!first.greeting.instance.is_empty());
        let looks = Client::connect(&format!("{}&wake=look", server.url()), 3).await;
        assert_eq!(looks.greeting.wake_method, WakeMethod::Polled);
    }
}

#[tokio::test]
async fn a_look_at_a_database_without_our_schema_sees_no_lock_and_makes_nothing() {
    let name = QueueName::new("door").expect("a name");
    let look_at = |url: &str| SqlBackend::open(&url.parse().expect("a URL")).expect("a good URL");
    for server in each().await {
        let backend = look_at(&server.url());
        assert_eq!(soon("a look", backend.admin().inspect(&name)).await.expect("it is looked at"), []);
        assert_eq!(soon("a look", backend.admin().queues("")).await.expect("it is looked at"), []);
        let mut follower = backend.admin().follow(&Scope::default()).expect("looks");
        let told = soon("what is followed", follower.next()).await;
        assert!(matches!(&told, Some(FollowEvent::All(locks)) if locks.is_empty()), "{told:?}");
        drop(follower);
        let found = soon("an examination", backend.admin().examine(Scrutiny::Full)).await.expect("it is examined");
        assert!(matches!(&found[..], [one] if one.what.contains("is not made yet")), "{found:?}");
        let schemas = "SELECT schema_name FROM information_schema.schemata WHERE schema_name = 'lockkeeper'";
        assert!(server.ask(schemas).await.expect("an answer").iter().flatten().next().is_none());
        // Who could take no lock is told so, and not that it is free.
        let app = look_at(&server.url_of_user("app").await);
        let refused = soon("a look", app.admin().inspect(&name)).await.expect_err("it may not make the schema");
        assert!(refused.to_string().contains("lockkeeper setup"), "{refused:#}");
        // What is made since is seen.
        soon("a set-up", site(&server.url()).connect(Intent::SetUp)).await.expect("the schema");
        let client = Client::open(&server.url(), 1).await;
        client.join("door", 10).await;
        assert_eq!(soon("a look", backend.admin().inspect(&name)).await.expect("it is looked at").len(), 1);
    }
}

#[tokio::test]
async fn a_role_that_may_execute_our_functions_may_lock_and_read_no_table() {
    for server in each().await {
        let app = server.url_of_user("app").await;
        let make = server.either(r#"GRANT CREATE ON DATABASE "postgres" TO "app";"#, "GRANT");
        refused(&app, FailureKind::Refused, &["lockkeeper setup", make]).await;
        refused(&format!("{app}&setup=never"), FailureKind::Settings, &["`lockkeeper`", "lockkeeper setup"]).await;
        soon("a set-up", site(&server.url()).connect(Intent::SetUp)).await.expect("the schema");
        let grants = server.either(
            "GRANT USAGE ON SCHEMA lockkeeper TO \"app\"; \
             GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lockkeeper TO \"app\";",
            "GRANT EXECUTE ON `lockkeeper`.* TO 'app'@'%';",
        );
        refused(&app, FailureKind::Refused, &["`app", grants]).await;
        server.ask(grants).await.expect("the rights");
        let client = Client::open(&app, 1).await;
        client.join("door", 10).await;
        assert_eq!(client.leave("door", 10).await, "left");
        if server.kind() == Kind::Mariadb {
            let rights = server.ask("SHOW GRANTS FOR app").await.expect("its rights");
            assert!(rights.iter().flatten().flatten().all(|right| !right.contains("SELECT")), "{rights:?}");
            continue;
        }
        for sql in ["SELECT * FROM lockkeeper.contender", "UPDATE lockkeeper.queue SET last = 0"] {
            let refused = server.ask(&format!("SET ROLE app; {sql}")).await;
            assert!(refused.expect_err("it is refused").to_string().contains("42501"));
        }
        // It loses them while it is connected.
        server.ask("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA lockkeeper FROM app").await.expect("no rights any more");
        let failure = soon("a refusal", client.joining("door", 11)).await.expect_err("it is refused");
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.to_string().contains(grants), "{failure}");
    }
}

#[tokio::test]
async fn a_readers_role_may_look_and_not_lock() {
    let Some(server) = server(Kind::Postgres).await else { return };
    let client = server.open(1).await;
    client.join("door", 10).await;
    server.url_of_user("viewer").await;
    let text = site(&server.url()).set_up_text();
    let rights = text.lines().find(|line| line.contains(r#""viewer""#)).expect("the rights of a reader");
    server.ask(rights.trim_start_matches("-- ")).await.expect("the rights");
    let as_viewer =
        async |function: &str| server.ask(&format!("SET ROLE viewer; SELECT * FROM lockkeeper.{function}")).await;
    for function in ["inspect_v1('door', 0)", "queues_v1('')", "follow_v1('', 0)"] {
        as_viewer(function).await.expect("it may look");
    }
    let id = "00000000-0000-0000-0000-00000000000a";
    let refused = as_viewer(&format!("leave_v1('{id}', 'door', 0, '{id}')")).await;
    assert!(refused.expect_err("it may not").to_string().contains("42501"));
}

#[tokio::test]
async fn a_set_up_can_be_repeated_and_its_text_does_the_same() {
    for server in each().await {
        let client = server.open(1).await;
        client.join("door", 10).await;
        let [first, second] = [(); 2].map(|()| site(&server.url()));
        let both = async { tokio::join!(first.connect(Intent::SetUp), second.connect(Intent::SetUp)) };
        let (first, second) = soon("two at once", both).await;
        first.and(second).expect("both are well");
        server.ask("ALTER TABLE lockkeeper.queue DROP COLUMN joined").await.expect("as an earlier version made it");
        server.plant(&[]).await;
        assert_eq!(client.leave("door", 10).await, "left", "what was there is there");
        client.join("door", 11).await;
        let other = format!("{}&schema=other_locks", server.url());
        server.send(&site(&other).set_up_text()).await;
        Client::open(&format!("{other}&setup=never"), 1).await.join("door", 10).await;
    }
}

#[tokio::test]
async fn a_client_that_comes_before_a_schema_is_complete_waits_for_its_making() {
    let Some(server) = server(Kind::Mariadb).await else { return };
    drop(server.connect(1).await);
    // All procedures are there, and what comes last is not.
    server.ask("DELETE FROM lockkeeper.meta").await.expect("no version");
    let never = format!("{}&setup=never", server.url());
    refused(&never, FailureKind::Unsupported, &["incomplete", "lockkeeper setup"]).await;
    let client = server.open(1).await;
    client.join("door", 10).await;
    assert_eq!(client.leave("door", 10).await, "left");
}

#[tokio::test]
async fn a_standby_is_refused_and_serves_another_state_of_the_data_once_promoted() {
    for server in each_with(Need::Standby).await {
        let before = server.connect(1).await.greeting;
        let mut standby = server.standby().await;
        refused(&standby.url(), FailureKind::ReadOnly, &[server.either("standby", "read_only")]).await;
        standby.promote().await;
        let after = standby.connect(1).await.greeting;
        assert_ne!(before.instance, after.instance);
        assert_eq!(standby.connect(2).await.greeting, after);
    }
}
