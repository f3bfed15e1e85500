//! Places: the order of joins, joins of connections that are over, and who is told of a departure.

use std::cell::Cell;
use std::collections::HashSet;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_faults::postgres::Server;

use crate::postgres::tests::support::{
    Client, SLOW_S, all, can_run, deadline, departed, join, leave, queue, read, server, soon, tickets, url,
};
use crate::postgres::tests::support::{is_seen, look, plant, until_asleep};
use crate::statement::{Argument, Row, What};

/// Where a join has taken its number; what follows is stored and shown.
const NUMBER_TAKEN: &str = "    IF v_last >= ";

/// The end of a join, before its transaction is committed.
const JOIN_ENDS: &str = "END $$;\n\n-- Gives up a place.";

/// How long a join is held up once it has its number, at most, so that later ones can go past it.
const HELD_UP: &str = "    PERFORM pg_sleep(random() * 0.01);\n    IF v_last >= ";

/// Takes a number from a sequence, as the row's lock in its place does.
const FROM_A_SEQUENCE: (&str, &str) = (
    "    INSERT INTO lockkeeper.queue AS q (name, part, last, modes)",
    "    IF p_name LIKE 'sequence%' THEN v_last := nextval('lockkeeper.numbers'); v_modes := 255; v_head := 0; \
     ELSE\n    INSERT INTO lockkeeper.queue AS q (name, part, last, modes)",
);

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
    let end = ("    IF v_is_new THEN\n", "    END IF;\n    IF v_is_new THEN\n");
    plant(&server, &[(NUMBER_TAKEN, HELD_UP), FROM_A_SEQUENCE, end]).await;
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
    let slow = format!("    PERFORM pg_sleep({SLOW_S});\n{NUMBER_TAKEN}");
    plant(&server, &[(NUMBER_TAKEN, &slow)]).await;
    assert_eq!([orphans(&server, false).await, orphans(&server, true).await], [0, 0]);
    let weak = ("AND s.epoch = p_epoch FOR SHARE", "AND s.epoch = p_epoch FOR KEY SHARE");
    plant(&server, &[(NUMBER_TAKEN, &slow), weak]).await;
    assert!(is_seen(async || orphans(&server, false).await == 1).await, "the weaker lock");
    let unlocked = ("AND s.epoch = p_epoch FOR SHARE", "AND s.epoch = p_epoch");
    plant(&server, &[(NUMBER_TAKEN, &slow), unlocked]).await;
    assert!(is_seen(async || orphans(&server, false).await == 1).await, "no lock");
    let any_epoch = ("AND s.epoch = p_epoch FOR SHARE", "FOR SHARE");
    plant(&server, &[(NUMBER_TAKEN, &slow), any_epoch]).await;
    assert_eq!(orphans(&server, true).await, 1, "no epoch");
}

/// Joins behind a holder that leaves before the join is committed; returns whether the waiter was told.
async fn is_told(server: &Server, name: &str) -> bool {
    let holder = Client::open(&url(server), 1).await;
    let mut waiter = Client::open(&url(server), 2).await;
    assert!(soon("listening", waiter.wire.listen(waiter.session)).await.expect("an answer"));
    holder.join(name, 10).await;
    let joining = waiter.joining(name, 20);
    until_asleep(server).await;
    assert_eq!(holder.leave(name, 10).await, "left");
    let (_, rows) = read(soon("the join", joining).await.expect("an answer"));
    assert!(tickets(&rows, What::Contender).contains(&10), "it was looked at before the holder left");
    waiter.ok("missing", vec![Argument::Ids(Vec::new())]).await;
    let told = waiter.hints.try_recv().ok();
    for client in [holder, waiter] {
        client.ok("close", vec![client.session.into()]).await;
    }
    told == Some(departed(10))
}

#[tokio::test]
async fn no_departure_falls_between_a_view_and_its_commit_and_one_that_locks_no_queue_is_caught() {
    if !can_run() {
        return;
    }
    let server = server().await;
    drop(Client::connect(&url(&server), 1).await);
    let slow = format!("  PERFORM pg_sleep({SLOW_S});\n{JOIN_ENDS}");
    plant(&server, &[(JOIN_ENDS, &slow)]).await;
    assert!(is_told(&server, "locked").await);
    let unlocked = (
        "  PERFORM FROM lockkeeper.queue q WHERE q.name = p_name AND q.part = p_part::smallint FOR UPDATE;\n  \
         DELETE FROM",
        "  DELETE FROM",
    );
    plant(&server, &[(JOIN_ENDS, &slow), unlocked]).await;
    assert!(is_seen(async || !is_told(&server, "unlocked").await).await, "the planted fault was not seen");
}

#[tokio::test]
async fn a_departure_is_told_to_the_readers_right_behind_up_to_the_first_that_is_none() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let holder = Client::open(&url(&server), 1).await;
    let mut others = Vec::new();
    // Readers, a writer, and a reader behind it.
    for (session, mode) in [(2, 1), (3, 1), (4, 2), (5, 1)] {
        let client = Client::open(&url(&server), session).await;
        assert!(soon("listening", client.wire.listen(client.session)).await.expect("an answer"));
        others.push((client, session * 10, mode));
    }
    holder.join("door", 10).await;
    for (client, ticket, mode) in &others {
        client.ok("join", join(client.session, 1, "door", &[*ticket], &[*mode])).await;
    }
    assert_eq!(holder.leave("door", 10).await, "left");
    for (client, _, _) in &mut others[..3] {
        assert_eq!(client.hint().await, departed(10));
    }
    others[3].0.assert_untold().await;
    // By hand, and with its session.
    server.ask("DELETE FROM lockkeeper.contender WHERE mode = 2").await.expect("an operator's removal");
    assert_eq!(others[3].0.hint().await, departed(40));
    assert_eq!(others[2].0.hint().await, crate::engine::Hint::Asked, "it was its own");
    server.ask("DELETE FROM lockkeeper.session WHERE owner = 'a test' AND epoch = 1").await.expect("all are removed");
    assert_eq!(queue(&holder, "door").await, [0_u128; 0]);
    assert_eq!(holder.leave("door", 20).await, "gone");
}

#[tokio::test]
async fn a_join_that_is_sent_again_finds_its_place() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    let asked = join(client.session, 1, "door", &[10, 11], &[0, 2]);
    let stored = |rows: &[Row]| -> Vec<_> {
        all(rows, What::Stored).iter().map(|row| (row.ticket, row.number, row.place)).collect()
    };
    let first = client.ok("join", asked.clone()).await;
    client.join("door", 12).await;
    let again = client.ok("join", asked.clone()).await;
    assert_eq!(stored(&again), stored(&first));
    assert_eq!(queue(&client, "door").await, [10, 11, 12]);
    assert_eq!(client.leave("door", 10).await, "left");
    let third = client.ok("join", asked).await;
    assert_eq!(stored(&third), stored(&first)[1..], "one was withdrawn meanwhile, and does not come back");
    assert_eq!(queue(&client, "door").await, [11, 12]);
}

#[tokio::test]
async fn a_place_beside_an_anchor_has_its_token_and_stands_right_behind_it() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    let other = Client::open(&url(&server), 2).await;
    let beside = |anchor: u128, ticket: u128| {
        let mut arguments = join(client.session, 1, "door", &[ticket], &[1]);
        arguments[7] = Argument::OptionalId(Some(anchor));
        arguments
    };
    client.join("door", 10).await;
    other.join("door", 20).await;
    for ticket in [11, 12, 13] {
        client.ok("join", beside(10, ticket)).await;
    }
    assert_eq!(queue(&client, "door").await, [10, 13, 12, 11, 20]);
    let rows = client.ok("look", look("door", None, true)).await;
    let tokens: HashSet<_> = all(&rows, What::Contender).iter().map(|row| row.number).collect();
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

#[tokio::test]
async fn a_departure_says_why_there_is_no_place() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    assert_eq!(client.leave("door", 10).await, "removed");
    let rows = client.join("door", 10).await;
    let token = all(&rows, What::Stored)[0].number;
    let request = |token: Option<i64>, ask: Option<&str>| {
        vec![
            Argument::Text("door".to_owned()),
            Argument::Int(0),
            Argument::Id(10),
            Argument::OptionalInt(token),
            Argument::OptionalText(ask.map(str::to_owned)),
        ]
    };
    let counted = async |arguments| {
        let rows = soon("a request", client.call("request", arguments)).await.expect("an answer");
        rows[0].number
    };
    assert_eq!(counted(request(Some(5), None)).await, Some(0), "another token");
    assert_eq!(counted(request(None, Some("please"))).await, Some(1));
    let beat = |beat: i64| {
        vec![
            client.session.into(),
            Argument::Int(1),
            Argument::Int(beat),
            Argument::Ids(vec![10]),
            Argument::Ids(Vec::new()),
            Argument::Int(0),
        ]
    };
    let asked = client.ok("beat", beat(2)).await;
    assert_eq!(all(&asked, What::Asked)[0].ask.as_deref(), Some("please"));
    assert_eq!(counted(request(token, None)).await, Some(1));
    let broken = client.ok("beat", beat(3)).await;
    assert_eq!(tickets(&broken, What::Broken), [10]);
    assert_eq!(tickets(&broken, What::Missing), [10]);
    assert_eq!([client.leave("door", 10).await, client.leave("door", 10).await], ["broken", "removed"]);
    let stranger = Client::connect(&url(&server), 9).await;
    assert_eq!(stranger.told("leave", leave(stranger.session, "door", 10)).await.0, "gone");
}
