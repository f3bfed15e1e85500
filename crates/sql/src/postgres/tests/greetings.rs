//! Greetings: which servers are refused and why, how our schema is made, and which rights are enough.

use lockkeeper_conformance::until;
use lockkeeper_faults::pgbouncer::{self, Lending, PgBouncer};
use lockkeeper_faults::postgres::{Server, Setup};
use lockkeeper_session::FailureKind;

use crate::engine::{Engine, Waking};
use crate::postgres::greeting::grants;
use crate::postgres::tests::support::{Client, can_run, connect, deadline, engine, join, look, server, soon, url};
use crate::statement::Argument;

/// The URL of an ordinary user's way to the database of tests, which that user was made for.
async fn url_of_user(server: &Server, user: &str) -> String {
    server.create_user(user, "secret").await.expect("a user");
    server.url_as(user, Some("secret"), "postgres")
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
async fn a_role_that_may_execute_our_functions_may_lock_and_read_no_table() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let app = url_of_user(&server, "app").await;
    refused(&app, FailureKind::Refused, &["lockkeeper setup", r#"GRANT CREATE ON DATABASE "postgres" TO "app";"#])
        .await;
    refused(&format!("{app}?setup=never"), FailureKind::Settings, &["no schema `lockkeeper`", "lockkeeper setup"])
        .await;
    soon("a set-up", engine(&url(&server)).set_up(deadline())).await.expect("the schema");
    let grants = grants("lockkeeper", "app");
    refused(&app, FailureKind::Refused, &["`app`", &grants]).await;
    server.ask(&grants).await.expect("the rights");
    let client = Client::open(&app, 1).await;
    client.join("door", 10).await;
    assert_eq!(client.leave("door", 10).await, "left");
    let read = server.ask("SET ROLE app; SELECT * FROM lockkeeper.contender").await;
    assert!(read.expect_err("it is refused").to_string().contains("42501"));
    let write = server.ask("SET ROLE app; UPDATE lockkeeper.queue SET last = 0").await;
    assert!(write.expect_err("it is refused").to_string().contains("42501"));
    // It loses them while it is connected.
    server.ask("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA lockkeeper FROM app").await.expect("no rights any more");
    let failure = soon("a refusal", client.joining("door", 11)).await.expect_err("it is refused");
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.to_string().contains(&grants), "{failure}");
}

#[tokio::test]
async fn a_readers_role_may_look_and_not_lock() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    client.join("door", 10).await;
    let _ = url_of_user(&server, "viewer").await;
    let text = engine(&url(&server)).set_up_text();
    let rights = text.lines().find(|line| line.contains(r#""viewer""#)).expect("the rights of a reader");
    server.ask(rights.trim_start_matches("-- ")).await.expect("the rights");
    let as_viewer = async |sql: &str| server.ask(&format!("SET ROLE viewer; {sql}")).await;
    as_viewer("SELECT * FROM lockkeeper.inspect_v1('door', 0)").await.expect("it may look");
    as_viewer("SELECT * FROM lockkeeper.queues_v1('')").await.expect("it may look");
    as_viewer("SELECT * FROM lockkeeper.inspect_all_v1('')").await.expect("it may look");
    let id = "00000000-0000-0000-0000-00000000000a";
    let refused = as_viewer(&format!("SELECT * FROM lockkeeper.leave_v1('{id}', 'door', 0, '{id}')")).await;
    assert!(refused.expect_err("it may not").to_string().contains("42501"));
}

#[tokio::test]
async fn a_set_up_can_be_repeated_and_its_text_does_the_same() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    client.join("door", 10).await;
    let engines = [engine(&url(&server)), engine(&url(&server))];
    let [first, second] = &engines;
    let (first, second) =
        soon("two at once", async { tokio::join!(first.set_up(deadline()), second.set_up(deadline())) }).await;
    first.and(second).expect("both are well");
    server.ask(&engines[0].set_up_text()).await.expect("its text");
    assert_eq!(client.leave("door", 10).await, "left", "what was there is there");
    let other = format!("{}&schema=other_locks", url(&server));
    server.ask(&engine(&other).set_up_text()).await.expect("another schema");
    Client::open(&other, 1).await.join("door", 10).await;
}

#[tokio::test]
async fn schemas_of_other_versions_and_of_others_are_told_apart() {
    if !can_run() {
        return;
    }
    let server = server().await;
    drop(connect(&url(&server)).await.expect("the schema"));
    server.ask("UPDATE lockkeeper.meta SET version = 3").await.expect("a newer version");
    drop(connect(&url(&server)).await.expect("what we call is still there"));
    server.ask("DROP FUNCTION lockkeeper.unwatch_v1").await.expect("it is gone");
    refused(&url(&server), FailureKind::Unsupported, &["newer version 3", "version 2"]).await;
    server.ask("UPDATE lockkeeper.meta SET version = 0").await.expect("an older version");
    refused(&url(&server), FailureKind::Unsupported, &["of version 0", "version 2", "lockkeeper setup"]).await;
    soon("a set-up", engine(&url(&server)).set_up(deadline())).await.expect("it is brought up to date");
    drop(connect(&url(&server)).await.expect("it is complete"));
    server.ask("CREATE SCHEMA shop; CREATE FUNCTION shop.buy() RETURNS int LANGUAGE sql AS 'SELECT 1'").await.unwrap();
    refused(&format!("{}&schema=shop", url(&server)), FailureKind::Settings, &["`shop`", "another program's"]).await;
}

#[tokio::test]
async fn a_server_that_cannot_serve_locks_is_refused_in_one_line() {
    if !can_run() {
        return;
    }
    let server = Setup::new().password("root's").start().await.expect("a server");
    server.create_database("latin", "LATIN1").await.expect("a database");
    refused(&server.url("latin"), FailureKind::Unsupported, &["`latin`", "LATIN1", "UTF8"]).await;
    refused(&server.url("missing"), FailureKind::Settings, &["missing"]).await;
    let address = server.address();
    refused(&format!("postgres://postgres:wrong@{address}/postgres"), FailureKind::Refused, &["password"]).await;
    refused(&format!("postgres://postgres@{address}/postgres"), FailureKind::Refused, &["password"]).await;
    server.ask("ALTER ROLE postgres SET default_transaction_read_only = on").await.expect("a setting");
    refused(&server.url("postgres"), FailureKind::ReadOnly, &["read"]).await;
}

#[tokio::test]
async fn a_standby_is_refused_and_serves_another_state_of_the_data_once_promoted() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let before = connect(&url(&server)).await.expect("a connection").greeting;
    let standby = server.standby().await.expect("a standby");
    standby.caught_up(&server).await.expect("it has all");
    refused(&url(&standby), FailureKind::ReadOnly, &["standby"]).await;
    standby.promote().await.expect("it is a primary");
    let after = connect(&url(&standby)).await.expect("a connection").greeting;
    assert_ne!(before.instance, after.instance);
    let again = connect(&url(&standby)).await.expect("a connection").greeting;
    assert_eq!(after, again);
}

#[tokio::test]
async fn what_a_role_is_limited_to_by_default_does_not_hold_for_us() {
    if !can_run() {
        return;
    }
    let server = server().await;
    drop(connect(&url(&server)).await.expect("the schema"));
    server.ask("ALTER ROLE postgres SET statement_timeout = '1ms'").await.expect("a setting");
    server.ask("ALTER ROLE postgres SET synchronous_commit = 'off'").await.expect("a setting");
    let client = Client::open(&url(&server), 1).await;
    for ticket in 0..50 {
        client.join("door", ticket).await;
    }
}

#[tokio::test]
async fn a_pooler_is_found_and_waiters_behind_it_look() {
    if !can_run() || !pgbouncer::availability().or_skip("a_pooler_is_found_and_waiters_behind_it_look") {
        return;
    }
    let server = server().await;
    assert_eq!(connect(&url(&server)).await.expect("a connection").greeting.waking, Waking::Told);
    let look_only = format!("{}&wake=look", url(&server));
    assert_eq!(connect(&look_only).await.expect("a connection").greeting.waking, Waking::Looks);
    let pooler = PgBouncer::start(&server, Lending::Transaction, 2).await.expect("a pooler");
    let pooled = format!("postgres://postgres@{}/postgres", pooler.address());
    for level in ["read committed", "serializable"] {
        server.ask(&format!("ALTER DATABASE postgres SET default_transaction_isolation = '{level}'")).await.unwrap();
        // The pooler's connections of before have the default of before.
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
        server.ask(end).await.expect("they are ended");
        let session = level.len() as u128;
        let mut client = None;
        for _ in 0..20 {
            // One of the ended connections may still be lent.
            if connect(&pooled).await.is_ok() {
                client = Some(Client::open(&pooled, session).await);
                break;
            }
        }
        let client = client.expect("a connection");
        assert_eq!(client.greeting.waking, Waking::Looks);
        assert!(!client.wire.listen(client.session).await.expect("an answer"));
        let joins: Vec<_> = (0..20).map(|ticket| client.joining("door", session << 64 | ticket)).collect();
        for joined in joins {
            soon("a join", joined).await.expect("a join");
        }
        let arguments = join(client.session, 1, "door", &[session << 65], &[0]);
        client.ok("join", arguments).await;
        client.ok("look", look("door", None, true)).await;
        client.ok("close", vec![Argument::Id(session)]).await;
    }
    let settings = server.value("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'").await;
    assert_eq!(settings.expect("a count"), "0", "no transaction is left open");
}

#[tokio::test]
async fn a_statement_behind_a_pooler_has_a_limit() {
    if !can_run() || !pgbouncer::availability().or_skip("a_statement_behind_a_pooler_has_a_limit") {
        return;
    }
    let server = server().await;
    let pooler = PgBouncer::start(&server, Lending::Transaction, 2).await.expect("a pooler");
    let client = Client::open(&format!("{}?session_timeout=6s", pooler.url("postgres")), 1).await;
    let stuck = server.ask("BEGIN; LOCK TABLE lockkeeper.queue IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600); COMMIT");
    let joining = async {
        let locked = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted \
                      AND relation = 'lockkeeper.queue'::regclass";
        until("a lock", async || server.value(locked).await.is_ok_and(|count| count == "1")).await;
        soon("a refusal", client.joining("door", 10)).await.expect_err("it waited too long")
    };
    let failure = tokio::select! {
        _ = stuck => panic!("the join waits for as long as the lock of the table is held"),
        failure = joining => failure,
    };
    // A sixth of the session timeout is less than the functions themselves wait for a lock.
    assert!(failure.kind == FailureKind::Busy && failure.to_string().contains("57014"), "{failure}");
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_client_with_a_certificate_is_let_in_and_others_are_told_why_they_are_not() {
    if !can_run() {
        return;
    }
    use lockkeeper_faults::authority::Authority;

    const NAME: &str = "postgres.example";
    let authority = || Authority::new(NAME).expect("an authority");
    let (ours, other) = (authority(), authority());
    let secured = Setup::new().tls(ours.server_papers()).start().await.expect("a server");
    let plain = server().await;
    let url = |server: &Server, authority: &Authority, name: &str| {
        let (address, ca) = (server.address(), authority.file("ca"));
        format!("postgres+tls://postgres@{address}/postgres?server_name={name}&ca={}", ca.display())
    };
    let identified =
        |url: String| format!("{url}&cert={}&key={}", ours.file("client").display(), ours.file("client-key").display());
    let good = identified(url(&secured, &ours, NAME));
    Client::open(&good, 1).await.join("door", 10).await;
    assert_eq!(connect(&good).await.expect("a connection").greeting.waking, Waking::Told);
    refused(&identified(url(&secured, &other, NAME)), FailureKind::Refused, &["`ca` names"]).await;
    let elsewhere = identified(url(&secured, &ours, "elsewhere.example"));
    refused(&elsewhere, FailureKind::Refused, &["elsewhere.example"]).await;
    refused(&url(&secured, &ours, NAME), FailureKind::Refused, &["certificate"]).await;
    refused(&secured.url("postgres"), FailureKind::Refused, &["`postgres+tls:`"]).await;
    refused(&identified(url(&plain, &ours, NAME)), FailureKind::Refused, &["`postgres:`"]).await;
}
