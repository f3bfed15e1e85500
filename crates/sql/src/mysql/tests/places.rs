//! Places: the order of joins, joins of connections that are over, and what a join sees.

use std::cell::Cell;
use std::collections::HashSet;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_faults::mariadb::Server;

use crate::engine::Door;
use crate::mysql::tests::support::{
    Client, SLOW_S, SOON, all, can_run, deadline, is_seen, look, plant, queue, read, server, soon, tickets,
    until_asleep, url,
};
use crate::statement::{Argument, What};

/// Where a join has taken its number; what follows is stored and shown.
const NUMBER_TAKEN: &str = "      IF v_last >= ";

/// How long a join is held up once it has its number, at most, so that later ones can go past it.
const HELD_UP: &str = "      DO SLEEP(RAND() * 0.01);\n      IF v_last >= ";

/// Takes a number from a sequence, and locks no row for it.
const FROM_A_SEQUENCE: [(&str, &str); 4] = [
    (
        "SELECT q.last, q.modes INTO v_last, v_modes FROM lockkeeper.queue q WHERE q.name = p_name AND q.part = p_part \
         FOR UPDATE;\n  IF v_last IS NULL THEN",
        "SELECT NEXTVAL(lockkeeper.numbers), 255 INTO v_last, v_modes;\n  IF v_last IS NULL THEN",
    ),
    ("SET v_last = GREATEST(v_last, ", "SET v_last = GREATEST(v_last, 0 * "),
    (
        "UPDATE lockkeeper.queue q SET q.last = v_last, q.modes = v_modes WHERE",
        "UPDATE lockkeeper.queue q SET q.last = 0 WHERE FALSE AND",
    ),
    // The join would take that for an interruption.
    ("AND q.part = p_part;\n      IF ROW_COUNT() = 0 THEN", "AND q.part = p_part;\n      IF FALSE THEN"),
];

/// How the transaction of a join begins.
const BEGIN: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\n  START TRANSACTION;";

/// The server's default, by which a transaction may see all as it was when it began, before it waited for any lock.
const BEGIN_REPEATABLE: &str =
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;\n  START TRANSACTION WITH CONSISTENT SNAPSHOT;";

/// A release that locks no row of its queue.
const UNLOCKED: (&str, &str) = (
    "WHERE q.name = p_name AND q.part = p_part FOR UPDATE;\n  DELETE FROM lockkeeper.contender WHERE ticket = p_ticket",
    "WHERE q.name = p_name AND q.part = p_part;\n  DELETE FROM lockkeeper.contender WHERE ticket = p_ticket",
);

/// The end of a join, when it has shown the queue and is not committed.
const JOIN_ENDS: &str = "  -- The doors are taken last: a transaction that was given up has none.\n";

/// How a release opens the door, once it is committed.
const OPENS: &str = "  DO RELEASE_LOCK(CONCAT('lk.', LOWER(HEX(p_ticket))));\n";

/// Joins from several connections, looks meanwhile, and counts the contenders that appeared ahead of one seen before.
async fn late_ones_ahead(server: &Server, name: &str, first_session: u128) -> usize {
    const JOINERS: u128 = 6;
    const JOINS: u128 = 25;
    let mut joiners = Vec::new();
    for session in first_session..first_session + JOINERS {
        let client = Client::open(&url(server), session).await;
        let name = name.to_owned();
        joiners.push(tokio::spawn(async move {
            for number in 0..JOINS {
                client.join(&name, session << 64 | number).await;
            }
            client
        }));
    }
    let observer = Client::connect(&url(server), 99).await;
    let ends_at = deadline();
    let (mut seen, mut last, mut late) = (HashSet::new(), None::<i64>, 0);
    while seen.len() < usize::try_from(JOINERS * JOINS).unwrap() {
        assert!(SystemClock.now() < ends_at, "{} contenders came", seen.len());
        let rows = observer.ok("look", look(name, None, true)).await;
        let mut newest = last;
        for row in all(&rows, What::Contender) {
            let token = row.number.expect("it has a token");
            if seen.insert(row.ticket) && last.is_some_and(|last| token < last) {
                late += 1;
            }
            newest = newest.max(Some(token));
        }
        last = newest;
    }
    for joiner in joiners {
        soon("the end of a joiner", joiner).await.expect("it joined");
    }
    late
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_ever_appears_ahead_of_a_contender_once_seen_and_a_sequence_is_caught() {
    if !can_run() {
        return;
    }
    let server = server().await;
    drop(Client::connect(&url(&server), 1).await);
    plant(&server, &[(NUMBER_TAKEN, HELD_UP)]).await;
    assert_eq!(late_ones_ahead(&server, "row", 1).await, 0);
    server.ask("CREATE SEQUENCE lockkeeper.numbers").await.expect("a sequence");
    let planted: Vec<_> = FROM_A_SEQUENCE.into_iter().chain([(NUMBER_TAKEN, HELD_UP)]).collect();
    plant(&server, &planted).await;
    let tries = Cell::new(0);
    let is_late = async || {
        tries.set(tries.get() + 1);
        // Each has a queue and sessions that no other one has.
        late_ones_ahead(&server, &format!("sequence {}", tries.get()), 10 * tries.get() + 1).await > 0
    };
    assert!(is_seen(is_late).await, "the planted fault was not seen");
}

/// Sends a join over a connection that is then given up for another, over which the session goes on without it; returns
/// how many contenders are left.
async fn orphans(server: &Server, is_late: bool) -> usize {
    let old = Client::open(&url(server), 7).await;
    let new = Client::connect(&url(server), 7).await;
    let resume = vec![old.session.into(), Argument::Int(2), Argument::Int(2), Argument::Ids(Vec::new())];
    if is_late {
        new.ok("resume", resume).await;
        soon("a late join", old.joining("door", 70)).await.expect("an answer");
    } else {
        let joining = old.joining("door", 70);
        // It has begun when it has locked the session's row.
        until_asleep(server).await;
        new.ok("resume", resume).await;
        soon("the join", joining).await.expect("an answer");
    }
    let left = queue(&new, "door").await.len();
    new.ok("close", vec![new.session.into()]).await;
    left
}

#[tokio::test]
async fn a_join_over_a_connection_that_is_over_takes_no_place_and_each_gap_in_that_is_caught() {
    if !can_run() {
        return;
    }
    let server = server().await;
    drop(Client::connect(&url(&server), 1).await);
    let slow = format!("      DO SLEEP({SLOW_S});\n{NUMBER_TAKEN}");
    plant(&server, &[(NUMBER_TAKEN, &slow)]).await;
    assert_eq!([orphans(&server, false).await, orphans(&server, true).await], [0, 0]);
    let unlocked = ("AND s.epoch = p_epoch LOCK IN SHARE MODE", "AND s.epoch = p_epoch");
    plant(&server, &[(NUMBER_TAKEN, &slow), unlocked]).await;
    assert!(is_seen(async || orphans(&server, false).await == 1).await, "no lock");
    let any_epoch = ("AND s.epoch = p_epoch LOCK IN SHARE MODE", "LOCK IN SHARE MODE");
    plant(&server, &[(NUMBER_TAKEN, &slow), any_epoch]).await;
    assert_eq!(orphans(&server, true).await, 1, "no epoch");
}

/// Joins behind a join that is not committed yet; returns whether the second saw the first.
async fn sees_the_one_before(server: &Server, name: &str) -> bool {
    let (first, second) = (Client::open(&url(server), 1).await, Client::open(&url(server), 2).await);
    // There is a row to wait for; and one between both, else repeatable reads lock the same gap and meet in a deadlock.
    first.join(name, 9).await;
    first.leave(name, 9).await;
    first.join("another", 15).await;
    let (joining, behind) = (first.joining(name, 10), async {
        until_asleep(server).await;
        second.joining(name, 20).await
    });
    let (joined, behind) = soon("both joins", async { tokio::join!(joining, behind) }).await;
    joined.expect("the first joins");
    let (_, rows) = read(behind.expect("the second joins"));
    for client in [first, second] {
        client.ok("close", vec![client.session.into()]).await;
    }
    tickets(&rows, What::Contender).contains(&10)
}

#[tokio::test]
async fn a_join_sees_what_was_committed_while_it_waited_and_repeatable_reads_are_caught() {
    if !can_run() {
        return;
    }
    let server = server().await;
    drop(Client::connect(&url(&server), 1).await);
    let slow = format!("      DO SLEEP({SLOW_S});\n{NUMBER_TAKEN}");
    plant(&server, &[(NUMBER_TAKEN, &slow)]).await;
    assert!(sees_the_one_before(&server, "committed").await);
    plant(&server, &[(NUMBER_TAKEN, &slow), (BEGIN, BEGIN_REPEATABLE)]).await;
    let is_blind = async || !sees_the_one_before(&server, "repeatable").await;
    assert!(is_seen(is_blind).await, "the planted fault was not seen");
}

/// Joins behind a holder that leaves before the join is committed; returns whether the waiter finds its door open and
/// the holder gone.
async fn finds_the_door_open(server: &Server, name: &str) -> bool {
    let (holder, waiter) = (Client::open(&url(server), 1).await, Client::open(&url(server), 2).await);
    holder.join(name, 10).await;
    let joining = waiter.joining(name, 20);
    until_asleep(server).await;
    assert_eq!(holder.leave(name, 10).await, "left");
    let (_, rows) = read(soon("the join", joining).await.expect("an answer"));
    assert!(tickets(&rows, What::Contender).contains(&10), "it was looked at before the holder left");
    let door = soon("the door", waiter.wire.door(Ticket::from_bits(10), SOON)).await;
    let missing = waiter.ok("missing", vec![Argument::Ids(vec![10])]).await;
    for client in [holder, waiter] {
        client.ok("close", vec![client.session.into()]).await;
    }
    matches!(door, Ok(Door::Opened)) && tickets(&missing, What::Missing) == [10]
}

/// Waits at a holder's door while it leaves; returns whether the holder is gone once the door is open.
async fn is_gone_when_the_door_opens(server: &Server, name: &str) -> bool {
    let (holder, waiter) = (Client::open(&url(server), 1).await, Client::open(&url(server), 2).await);
    holder.join(name, 10).await;
    let looked = async {
        let opened = waiter.wire.door(Ticket::from_bits(10), SOON).await.expect("no failure");
        assert_eq!(opened, Door::Opened);
        waiter.ok("missing", vec![Argument::Ids(vec![10])]).await
    };
    let (missing, left) = soon("the door", async { tokio::join!(looked, holder.leave(name, 10)) }).await;
    assert_eq!(left, "left");
    for client in [holder, waiter] {
        client.ok("close", vec![client.session.into()]).await;
    }
    tickets(&missing, What::Missing) == [10]
}

/// A door stays open, where a message is told once: so a release that does not lock the row of its queue loses no
/// wake-up here, and one that opens the door too early does.
#[tokio::test]
async fn a_release_before_a_join_is_committed_opens_the_door_and_one_that_opens_it_too_early_is_caught() {
    if !can_run() {
        return;
    }
    let server = server().await;
    drop(Client::connect(&url(&server), 1).await);
    let slow = format!("  DO SLEEP({SLOW_S});\n{JOIN_ENDS}");
    plant(&server, &[(JOIN_ENDS, &slow)]).await;
    assert!(finds_the_door_open(&server, "locked").await);
    plant(&server, &[(JOIN_ENDS, &slow), UNLOCKED]).await;
    assert!(finds_the_door_open(&server, "unlocked").await);
    plant(&server, &[]).await;
    assert!(is_gone_when_the_door_opens(&server, "committed").await);
    let too_early = format!("{OPENS}  DO SLEEP({SLOW_S});\n  COMMIT;\n");
    plant(&server, &[(&format!("  COMMIT;\n{OPENS}"), &too_early)]).await;
    let is_early = async || !is_gone_when_the_door_opens(&server, "early").await;
    assert!(is_seen(is_early).await, "the planted fault was not seen");
}

#[tokio::test]
async fn the_places_of_one_join_stand_together_and_a_join_that_is_sent_again_finds_its_place() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    let first = client.join("door", 10).await;
    client.join("door", 12).await;
    let again = client.join("door", 10).await;
    let numbers =
        |rows: &[_]| -> Vec<_> { all(rows, What::Stored).iter().map(|row| (row.ticket, row.number)).collect() };
    assert_eq!(numbers(&again), numbers(&first));
    assert_eq!(queue(&client, "door").await, [10, 12]);
    assert_eq!([client.leave("door", 10).await, client.leave("door", 10).await], ["left", "removed"]);
}
