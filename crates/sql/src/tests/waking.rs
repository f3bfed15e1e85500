//! Wakings of waiters: by notifications of departures and changes on PostgreSQL, and by named locks on MariaDB. Such a
//! lock stays free, where a message is told once.

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::Ticket;

use super::client::{Client, departed, read, text, tickets, token};
use super::server::{Kind, Server, is_seen, server};
use crate::engine::{Hint, NamedLockWait};
use crate::statement::{AnswerRow, Argument, RowKind};

/// The end of a join, when it has shown the queue and is not committed, on PostgreSQL and on MariaDB.
const JOIN_ENDS: [&str; 2] =
    ["END $$;\n\n-- Gives up a place.", "  -- The doors are taken last: a transaction that was given up has none.\n"];

/// How a release opens the named lock, once it is committed.
const OPENS: &str = "  DO RELEASE_LOCK(CONCAT('lk.', LOWER(HEX(p_ticket))));\n";

/// A release that locks no row of its queue.
const UNLOCKED: (&str, &str) = (
    "WHERE q.name = p_name AND q.part = p_part FOR UPDATE;\n  DELETE FROM lockkeeper.contender WHERE ticket = p_ticket",
    "WHERE q.name = p_name AND q.part = p_part;\n  DELETE FROM lockkeeper.contender WHERE ticket = p_ticket",
);

/// Joins behind a holder that leaves before the join is committed; returns whether the waiter was told, or finds the
/// named lock free and the holder gone.
async fn hears_of_departure(server: &Server, name: &str) -> bool {
    let (holder, mut waiter) = (server.open(1).await, server.open(2).await);
    let is_notified = server.kind() == Kind::Postgres;
    assert_eq!(waiter.listens().await, is_notified);
    holder.join(name, 10).await;
    let joining = waiter.joining(name, 20);
    server.until_asleep().await;
    assert_eq!(holder.leave(name, 10).await, "left");
    let (_, rows) = read(soon("the join", joining).await.expect("an answer"));
    assert!(tickets(&rows, RowKind::Contender).contains(&10), "it was looked at before the holder left");
    let free = waiter.wire.await_named_lock(Ticket::from_bits(10), SOON);
    let is_free = !is_notified && matches!(soon("the named lock", free).await, Ok(NamedLockWait::Free));
    let missing = waiter.ok("missing", vec![Argument::Ids(vec![10])]).await;
    let is_told = waiter.hints.try_recv().ok() == Some(departed(10));
    holder.close().await;
    waiter.close().await;
    (is_told || is_free) && tickets(&missing, RowKind::Missing) == [10]
}

#[tokio::test]
async fn no_departure_falls_between_a_view_and_its_commit_and_one_that_locks_no_queue_is_caught() {
    let Some(server) = server(Kind::Postgres).await else { return };
    drop(server.connect(1).await);
    let slow = server.slow(JOIN_ENDS[0]);
    server.plant(&[(JOIN_ENDS[0], &slow)]).await;
    assert!(hears_of_departure(&server, "locked").await);
    let unlocked = (
        "  PERFORM FROM lockkeeper.queue q WHERE q.name = p_name AND q.part = p_part::smallint FOR UPDATE;\n  \
         DELETE FROM",
        "  DELETE FROM",
    );
    server.plant(&[(JOIN_ENDS[0], &slow), unlocked]).await;
    assert!(is_seen(async || !hears_of_departure(&server, "unlocked").await).await, "the planted fault was not seen");
}

#[tokio::test]
async fn a_departure_is_told_to_the_readers_right_behind_up_to_the_first_that_is_none() {
    let Some(server) = server(Kind::Postgres).await else { return };
    let holder = server.open(1).await;
    let mut others = Vec::new();
    // Readers, a writer, and a reader behind it.
    for (session, mode) in [(2, 1), (3, 1), (4, 2), (5, 1)] {
        let client = server.open(session).await;
        assert!(client.listens().await);
        others.push((client, session * 10, mode));
    }
    holder.join("door", 10).await;
    for (client, ticket, mode) in &others {
        client.ok("join", client.to_join("door", &[*ticket], &[*mode])).await;
    }
    assert_eq!(holder.leave("door", 10).await, "left");
    for (client, _, _) in &mut others[..3] {
        assert_eq!(client.hint().await, departed(10));
    }
    others[3].0.assert_untold().await;
    // By hand, and with its session.
    server.ask("DELETE FROM lockkeeper.contender WHERE mode = 2").await.expect("an operator's removal");
    assert_eq!(others[3].0.hint().await, departed(40));
    assert_eq!(others[2].0.hint().await, Hint::Asked, "it was its own");
    server.ask("DELETE FROM lockkeeper.session WHERE owner = 'a test' AND epoch = 1").await.expect("all are removed");
    assert_eq!(holder.queue("door").await, [0_u128; 0]);
    assert_eq!(holder.leave("door", 20).await, "gone");
}

#[tokio::test]
async fn a_session_that_listens_is_counted_and_too_many_are_not_let_in() {
    let Some(server) = server(Kind::Postgres).await else { return };
    let client = server.open(1).await;
    let sessions = "INSERT INTO lockkeeper.session (id, epoch, beat, timeout_ms, owner, listening) \
                    SELECT gen_random_uuid(), 1, 1, 4000, 'another', true FROM generate_series(1, 128)";
    server.ask(sessions).await.expect("sessions that listen");
    assert!(!client.listens().await);
    let counted = async |beat| client.rows("beat", client.to_beat(1, beat, [&[]; 2], 0)).await[0].epoch;
    assert_eq!(counted(2).await, Some(0));
    server.ask("UPDATE lockkeeper.session SET listening = false WHERE owner = 'another'").await.expect("an update");
    assert!(client.listens().await);
    assert_eq!(counted(3).await, Some(1));
    soon("unlistening", client.wire.unlisten(client.session)).await.expect("an answer");
    assert_eq!(counted(4).await, Some(0));
}

/// Asks to be told no more if at least `far` stand ahead of a token in the queue, counted up to `most`.
async fn rest(client: &Client, token: i64, far: i64, most: i64) -> (String, i64) {
    let mut arguments = vec![client.session.into(), text("door")];
    arguments.extend([0, token, far, most].map(Argument::Int));
    let AnswerRow { text, number, .. } = client.rows("rest", arguments).await.remove(0);
    (text.expect("a word"), number.expect("a count"))
}

#[tokio::test]
async fn a_session_that_is_far_from_its_turn_is_told_no_more_until_it_listens_again() {
    let Some(server) = server(Kind::Postgres).await else { return };
    let (holder, mut waiter) = (server.open(1).await, server.open(2).await);
    for ticket in 10..30 {
        holder.join("door", ticket).await;
    }
    let token = token(&waiter.join("door", 50).await);
    assert!(waiter.listens().await);
    assert_eq!(rest(&waiter, token, 21, 250).await, ("near".to_owned(), 20));
    assert_eq!(rest(&waiter, token, 8, 7).await, ("near".to_owned(), 7));
    assert_eq!(holder.leave("door", 29).await, "left");
    assert_eq!(waiter.hint().await, departed(29));
    holder.ok("join", holder.to_join("door", &[60], &[1])).await;
    assert_eq!(rest(&waiter, token, 19, 250).await, ("near".to_owned(), 19), "a reader stands there");
    assert_eq!(holder.leave("door", 60).await, "left");
    server.ask("UPDATE lockkeeper.queue SET modes = 1").await.expect("the reader is forgotten");
    assert_eq!(rest(&waiter, token, 19, 250).await, ("ok".to_owned(), 19));
    assert_eq!(holder.leave("door", 28).await, "left");
    waiter.assert_untold().await;
    assert!(waiter.listens().await);
    assert_eq!(holder.leave("door", 27).await, "left");
    assert_eq!(waiter.hint().await, departed(27));
}

#[tokio::test]
async fn who_watches_a_queue_is_told_of_each_change() {
    let Some(server) = server(Kind::Postgres).await else { return };
    let (mut watcher, other) = (server.open(1).await, server.open(2).await);
    assert!(watcher.listens().await);
    other.join("door", 20).await;
    let queue = [text("door"), Argument::Int(0)];
    let watch = [watcher.session.into(), Argument::Int(1)].into_iter().chain(queue.clone());
    watcher.ok("watch", watch.collect()).await;
    let changed = Hint::Changed { name: "door".to_owned(), part: 0 };
    other.join("door", 21).await;
    assert_eq!(watcher.hint().await, changed);
    other.leave("door", 20).await;
    assert_eq!(watcher.hint().await, changed);
    for (expected, bytes) in [(0, Some(&b"one"[..])), (0, None)] {
        other.ok("set_value", other.to_set("door", expected, 0, bytes)).await;
        assert_eq!(watcher.hint().await, changed);
    }
    assert_eq!(other.told("set_value", other.to_set("door", 2, 5, None)).await.0, "no", "it is not there");
    watcher.assert_untold().await;
    watcher.ok("unwatch", [watcher.session.into()].into_iter().chain(queue).collect()).await;
    other.join("door", 22).await;
    watcher.assert_untold().await;
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
    let slow = server.slow(JOIN_ENDS[1]);
    server.plant(&[(JOIN_ENDS[1], &slow)]).await;
    assert!(hears_of_departure(&server, "locked").await);
    server.plant(&[(JOIN_ENDS[1], &slow), UNLOCKED]).await;
    assert!(hears_of_departure(&server, "unlocked").await);
    server.plant(&[]).await;
    assert!(is_gone_when_the_named_lock_is_free(&server, "committed").await);
    let too_early = format!("{OPENS}{}", server.slow("  COMMIT;\n"));
    server.plant(&[(&format!("  COMMIT;\n{OPENS}"), &too_early)]).await;
    let is_early = async || !is_gone_when_the_named_lock_is_free(&server, "early").await;
    assert!(is_seen(is_early).await, "the planted fault was not seen");
}
