//! Places: the order of joins, joins of connections that are over, and what a join and a departure answer.

use std::cell::Cell;
use std::collections::HashSet;

use lockkeeper_conformance::soon;
use lockkeeper_core::clock::{Clock, SystemClock};

use super::client::{all, look, read, text, tickets, token};
use super::server::{Kind, Server, deadline, each, is_seen, server};
use crate::statement::{AnswerRow, Argument, RowKind};

/// Where a join has taken its number; what follows is stored and shown.
const NUMBER_TAKEN: &str = "IF v_last >= ";

/// How long a join is held up once it has its number, at most, so that later ones can go past it, in seconds.
const HELD_UP_S: [&str; 2] = ["random() * 0.01", "RAND() * 0.01"];

/// Takes a number from a sequence, as the row's lock in its place does.
const FROM_A_SEQUENCE_POSTGRES: [(&str, &str); 2] = [
    (
        "    INSERT INTO lockkeeper.queue AS q (name, part, last, modes, joined)",
        "    IF p_name ~ '^(sequence|lockkeeper)' THEN v_last := nextval('lockkeeper.numbers'); v_modes := 255; \
         v_head := 0; \
         ELSE\n    INSERT INTO lockkeeper.queue AS q (name, part, last, modes, joined)",
    ),
    ("    IF v_is_new THEN\n", "    END IF;\n    IF v_is_new THEN\n"),
];

/// The same; it locks no row for the number.
const FROM_A_SEQUENCE_MARIADB: [(&str, &str); 5] = [
    ("AND NOT v_is_resent THEN", "AND FALSE THEN"),
    (
        "SELECT q.last, q.modes INTO v_last, v_modes FROM lockkeeper.queue q WHERE q.name = p_name AND q.part = p_part \
         FOR UPDATE;\n  IF v_last IS NULL THEN",
        "SELECT NEXTVAL(lockkeeper.numbers), 255 INTO v_last, v_modes;\n  IF v_last IS NULL THEN",
    ),
    ("SET v_last = GREATEST(v_last, ", "SET v_last = GREATEST(v_last, 0 * "),
    ("q.last = v_last, q.modes = v_modes\n          WHERE", "q.last = 0\n          WHERE FALSE AND"),
    // The join would take that for an interruption.
    ("AND q.part = p_part;\n        IF ROW_COUNT() = 0 THEN", "AND q.part = p_part;\n        IF FALSE THEN"),
];

/// How the transaction of a join begins on MariaDB.
const BEGIN: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\n  START TRANSACTION;";

/// The server's default, by which a transaction may see all as it was when it began, before it waited for any lock.
const BEGIN_REPEATABLE: &str =
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;\n  START TRANSACTION WITH CONSISTENT SNAPSHOT;";

/// Joins from several connections, looks meanwhile, and counts the contenders that appeared ahead of one seen before.
async fn late_ones_ahead(server: &Server, name: &str, first_session: u128) -> usize {
    const JOINERS: u128 = 6;
    const JOINS: u128 = 25;
    let mut joiners = Vec::new();
    for session in first_session..first_session + JOINERS {
        let client = server.open(session).await;
        let name = name.to_owned();
        joiners.push(tokio::spawn(async move {
            for number in 0..JOINS {
                client.join(&name, session << 64 | number).await;
            }
            client
        }));
    }
    let observer = server.connect(99).await;
    let ends_at = deadline();
    let (mut seen, mut last, mut late) = (HashSet::new(), None::<i64>, 0);
    while seen.len() < usize::try_from(JOINERS * JOINS).unwrap() {
        assert!(SystemClock.now() < ends_at, "{} contenders came", seen.len());
        let rows = observer.ok("look", look(name, None, true)).await;
        let mut newest = last;
        for row in all(&rows, RowKind::Contender) {
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

/// What has each join take its number from a sequence, and be held up behind that: the fault that a row's lock keeps
/// out.
pub(super) async fn numbers_of_a_sequence(server: &Server) -> Vec<(String, String)> {
    server.ask("CREATE SEQUENCE lockkeeper.numbers").await.expect("a sequence");
    let held_up = server.sleeping(server.either(HELD_UP_S[0], HELD_UP_S[1]), NUMBER_TAKEN);
    let planted = server.either(&FROM_A_SEQUENCE_POSTGRES[..], &FROM_A_SEQUENCE_MARIADB).iter();
    planted
        .copied()
        .chain([(NUMBER_TAKEN, &*held_up)])
        .map(|(is, becomes)| (is.to_owned(), becomes.to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_ever_appears_ahead_of_a_contender_once_seen_and_a_sequence_is_caught() {
    for server in each().await {
        drop(server.connect(1).await);
        let held_up = server.sleeping(server.either(HELD_UP_S[0], HELD_UP_S[1]), NUMBER_TAKEN);
        server.plant(&[(NUMBER_TAKEN, &held_up)]).await;
        assert_eq!(late_ones_ahead(&server, "row", 1).await, 0);
        let planted = numbers_of_a_sequence(&server).await;
        server.plant(&planted.iter().map(|(is, becomes)| (&**is, &**becomes)).collect::<Vec<_>>()).await;
        let tries = Cell::new(0);
        let is_late = async || {
            tries.set(tries.get() + 1);
            // Each has a queue and sessions that no other one has.
            late_ones_ahead(&server, &format!("sequence {}", tries.get()), 10 * tries.get() + 1).await > 0
        };
        assert!(is_seen(is_late).await, "the planted fault was not seen");
    }
}

/// Sends a join over a connection that is then given up for another, over which the session goes on without it; returns
/// how many contenders are left.
async fn orphans(server: &Server, is_late: bool) -> usize {
    let (old, new) = (server.open(7).await, server.connect(7).await);
    let resume = new.to_resume(2, 2, &[]);
    if is_late {
        new.ok("resume", resume).await;
        soon("a late join", old.joining("door", 70)).await.expect("an answer");
    } else {
        let joining = old.joining("door", 70);
        // It has begun when it has locked the session's row.
        server.until_asleep().await;
        new.ok("resume", resume).await;
        soon("the join", joining).await.expect("an answer");
    }
    let left = new.queue("door").await.len();
    new.close().await;
    left
}

#[tokio::test]
async fn a_join_over_a_connection_that_is_over_takes_no_place_and_each_gap_in_that_is_caught() {
    for server in each().await {
        drop(server.connect(1).await);
        let slow = server.slow(NUMBER_TAKEN);
        server.plant(&[(NUMBER_TAKEN, &slow)]).await;
        assert_eq!([orphans(&server, false).await, orphans(&server, true).await], [0, 0]);
        let share = server.either("FOR SHARE OF o", "LOCK IN SHARE MODE");
        let no_lock = server.either("AND o.epoch = p_epoch", "AND s.epoch = p_epoch");
        let locked = format!("{no_lock} {share}");
        for weaker in server.either(&["AND o.epoch = p_epoch FOR KEY SHARE OF o", no_lock][..], &[no_lock]) {
            server.plant(&[(NUMBER_TAKEN, &slow), (&locked, weaker)]).await;
            assert!(is_seen(async || orphans(&server, false).await == 1).await, "{weaker}");
        }
        server.plant(&[(NUMBER_TAKEN, &slow), (&locked, share)]).await;
        assert_eq!(orphans(&server, true).await, 1, "no epoch");
    }
}

/// Joins behind a join that is not committed yet; returns whether the second saw the first.
async fn sees_the_one_before(server: &Server, name: &str) -> bool {
    let (first, second) = (server.open(1).await, server.open(2).await);
    // There is a row to wait for; and one between both, else repeatable reads lock the same gap and meet in a deadlock.
    first.join(name, 9).await;
    first.leave(name, 9).await;
    first.join("another", 15).await;
    let (joining, behind) = (first.joining(name, 10), async {
        server.until_asleep().await;
        second.joining(name, 20).await
    });
    let (joined, behind) = soon("both joins", async { tokio::join!(joining, behind) }).await;
    joined.expect("the first joins");
    let (_, rows) = read(behind.expect("the second joins"));
    first.close().await;
    second.close().await;
    tickets(&rows, RowKind::Contender).contains(&10)
}

#[tokio::test]
async fn a_join_sees_what_was_committed_while_it_waited_and_repeatable_reads_are_caught() {
    let Some(server) = server(Kind::Mariadb).await else { return };
    drop(server.connect(1).await);
    let slow = server.slow(NUMBER_TAKEN);
    server.plant(&[(NUMBER_TAKEN, &slow)]).await;
    assert!(sees_the_one_before(&server, "committed").await);
    server.plant(&[(NUMBER_TAKEN, &slow), (BEGIN, BEGIN_REPEATABLE)]).await;
    let is_blind = async || !sees_the_one_before(&server, "repeatable").await;
    assert!(is_seen(is_blind).await, "the planted fault was not seen");
}

#[tokio::test]
async fn a_join_that_is_sent_again_finds_its_place() {
    for server in each().await {
        let client = server.open(1).await;
        let asked = client.to_join("door", &[10, 11], &[0, 2]);
        let stored = |rows: &[AnswerRow]| -> Vec<_> {
            all(rows, RowKind::Stored).iter().map(|row| (row.ticket, row.number, row.place)).collect()
        };
        let first = client.ok("join", asked.clone()).await;
        client.join("door", 12).await;
        let again = client.ok("join", asked.clone()).await;
        assert_eq!(stored(&again), stored(&first));
        assert_eq!(client.queue("door").await, [10, 11, 12]);
        assert_eq!([client.leave("door", 10).await, client.leave("door", 10).await], ["left", "removed"]);
        let third = client.ok("join", asked).await;
        assert_eq!(stored(&third), stored(&first)[1..], "one was withdrawn meanwhile, and does not come back");
        assert_eq!(client.queue("door").await, [11, 12]);
    }
}

#[tokio::test]
async fn a_place_beside_an_anchor_has_its_token_and_stands_right_behind_it() {
    for server in each().await {
        let (client, other) = (server.open(1).await, server.open(2).await);
        let beside = |anchor: u128, ticket: u128| {
            let mut arguments = client.to_join("door", &[ticket], &[1]);
            arguments[7] = Argument::OptionalId(Some(anchor));
            arguments
        };
        client.join("door", 10).await;
        other.join("door", 20).await;
        for ticket in [11, 12, 13] {
            client.ok("join", beside(10, ticket)).await;
        }
        assert_eq!(client.queue("door").await, [10, 13, 12, 11, 20]);
        let rows = client.ok("look", look("door", None, true)).await;
        let tokens: HashSet<_> = all(&rows, RowKind::Contender).iter().map(|row| row.number).collect();
        assert_eq!(tokens.len(), 2, "all beside the anchor have its token");
        for anchor in [20, 99] {
            assert_eq!(client.told("join", beside(anchor, 14)).await.0, "anchor", "it is not ours, or not there");
        }
        let mut is_full = false;
        // Places are halved towards the anchor's, which is 0.
        for ticket in 100..1_300 {
            is_full = client.told("join", beside(10, ticket)).await.0 == "full";
            if is_full {
                break;
            }
        }
        assert!(is_full, "there are not so many numbers above 0");
    }
}

#[tokio::test]
async fn a_departure_says_why_there_is_no_place() {
    for server in each().await {
        let client = server.open(1).await;
        assert_eq!(client.leave("door", 10).await, "removed");
        let token = token(&client.join("door", 10).await);
        let counted = async |token: Option<i64>, ask: Option<&str>| {
            let (token, ask) = (Argument::OptionalInt(token), Argument::OptionalText(ask.map(str::to_owned)));
            client.rows("request", vec![text("door"), Argument::Int(0), Argument::Id(10), token, ask]).await[0].number
        };
        assert_eq!(counted(Some(5), None).await, Some(0), "another token");
        assert_eq!(counted(None, Some("please")).await, Some(1));
        let asked = client.ok("beat", client.to_beat(1, 2, [&[10], &[]], 0)).await;
        assert_eq!(all(&asked, RowKind::Asked)[0].ask.as_deref(), Some("please"));
        assert_eq!(counted(Some(token), None).await, Some(1));
        let broken = client.ok("beat", client.to_beat(1, 3, [&[10], &[]], 0)).await;
        assert_eq!(tickets(&broken, RowKind::Broken), [10]);
        assert_eq!(tickets(&broken, RowKind::Missing), [10]);
        assert_eq!([client.leave("door", 10).await, client.leave("door", 10).await], ["broken", "removed"]);
        let stranger = server.connect(9).await;
        assert_eq!(stranger.leave("door", 10).await, "gone");
    }
}
