//! Named locks, where a waiter waits for one: on MariaDB. Such a lock stays free, where a message is told once.

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::Ticket;

use super::client::{read, tickets};
use super::server::{Kind, Server, is_seen, server};
use crate::engine::NamedLockWait;
use crate::statement::{Argument, RowKind};

/// The end of a join, when it has shown the queue and is not committed.
const JOIN_ENDS: &str = "  -- The doors are taken last: a transaction that was given up has none.\n";

/// How a release opens the named lock, once it is committed.
const OPENS: &str = "  DO RELEASE_LOCK(CONCAT('lk.', LOWER(HEX(p_ticket))));\n";

/// A release that locks no row of its queue.
const UNLOCKED: (&str, &str) = (
    "WHERE q.name = p_name AND q.part = p_part FOR UPDATE;\n  DELETE FROM lockkeeper.contender WHERE ticket = p_ticket",
    "WHERE q.name = p_name AND q.part = p_part;\n  DELETE FROM lockkeeper.contender WHERE ticket = p_ticket",
);

/// Joins behind a holder that leaves before the join is committed; returns whether the waiter finds its named lock free
/// and the holder gone.
async fn finds_the_named_lock_free(server: &Server, name: &str) -> bool {
    let (holder, waiter) = (server.open(1).await, server.open(2).await);
    holder.join(name, 10).await;
    let joining = waiter.joining(name, 20);
    server.until_asleep().await;
    assert_eq!(holder.leave(name, 10).await, "left");
    let (_, rows) = read(soon("the join", joining).await.expect("an answer"));
    assert!(tickets(&rows, RowKind::Contender).contains(&10), "it was looked at before the holder left");
    let free = soon("the named lock", waiter.wire.await_named_lock(Ticket::from_bits(10), SOON)).await;
    let missing = waiter.ok("missing", vec![Argument::Ids(vec![10])]).await;
    holder.close().await;
    waiter.close().await;
    matches!(free, Ok(NamedLockWait::Free)) && tickets(&missing, RowKind::Missing) == [10]
}

/// Waits for the named lock of a holder while it leaves; returns whether the holder is gone once that is free.
async fn is_gone_when_the_named_lock_is_free(server: &Server, name: &str) -> bool {
    let (holder, waiter) = (server.open(1).await, server.open(2).await);
    holder.join(name, 10).await;
    let looked = async {
        let opened = waiter.wire.await_named_lock(Ticket::from_bits(10), SOON).await.expect("no failure");
        assert_eq!(opened, NamedLockWait::Free);
        waiter.ok("missing", vec![Argument::Ids(vec![10])]).await
    };
    let (missing, left) = soon("the named lock", async { tokio::join!(looked, holder.leave(name, 10)) }).await;
    assert_eq!(left, "left");
    holder.close().await;
    waiter.close().await;
    tickets(&missing, RowKind::Missing) == [10]
}

/// A release that does not lock the row of its queue loses no wake-up here, and one that opens the named lock too early
/// does.
#[tokio::test]
async fn a_release_before_a_join_is_committed_frees_the_named_lock_and_one_that_frees_it_too_early_is_caught() {
    let Some(server) = server(Kind::Mariadb).await else { return };
    drop(server.connect(1).await);
    let slow = server.slow(JOIN_ENDS);
    server.plant(&[(JOIN_ENDS, &slow)]).await;
    assert!(finds_the_named_lock_free(&server, "locked").await);
    server.plant(&[(JOIN_ENDS, &slow), UNLOCKED]).await;
    assert!(finds_the_named_lock_free(&server, "unlocked").await);
    server.plant(&[]).await;
    assert!(is_gone_when_the_named_lock_is_free(&server, "committed").await);
    let too_early = format!("{OPENS}{}", server.slow("  COMMIT;\n"));
    server.plant(&[(&format!("  COMMIT;\n{OPENS}"), &too_early)]).await;
    let is_early = async || !is_gone_when_the_named_lock_is_free(&server, "early").await;
    assert!(is_seen(is_early).await, "the planted fault was not seen");
}
