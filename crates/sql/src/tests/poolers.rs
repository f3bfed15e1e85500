//! PgBouncer before PostgreSQL.

use lockkeeper_conformance::{soon, until};
use lockkeeper_faults::pgbouncer::{self, Lending, PgBouncer};
use lockkeeper_session::FailureKind;

use super::client::{Client, look};
use super::server::{Kind, Server, can_run, connect, server};
use crate::engine::WakeMethod;

async fn pooled() -> Option<(Server, PgBouncer)> {
    if !can_run(pgbouncer::availability()) {
        return None;
    }
    let server = server(Kind::Postgres).await?;
    let pooler = PgBouncer::start(server.postgres(), Lending::Transaction, 2).await.expect("a pooler");
    Some((server, pooler))
}

#[tokio::test]
async fn a_pooler_is_found_and_waiters_behind_it_look() {
    let Some((server, pooler)) = pooled().await else { return };
    let pooled = pooler.url("postgres");
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
        assert_eq!(client.greeting.wake_method, WakeMethod::Polled);
        assert!(!client.listens().await);
        let joins: Vec<_> = (0..20).map(|ticket| client.joining("door", session << 64 | ticket)).collect();
        for joined in joins {
            soon("a join", joined).await.expect("a join");
        }
        client.join("door", session << 65).await;
        client.ok("look", look("door", None, true)).await;
        client.close().await;
    }
    let settings = server.value("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'").await;
    assert_eq!(settings.expect("a count"), "0", "no transaction is left open");
}

#[tokio::test]
async fn a_statement_behind_a_pooler_has_a_limit() {
    let Some((server, pooler)) = pooled().await else { return };
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
