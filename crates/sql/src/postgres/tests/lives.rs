//! Sessions: beats, new connections, removal, settling; tokens over the loss of data; who is told of changes.

use lockkeeper_faults::wait;

use crate::engine::Hint;
use crate::postgres::tests::support::{
    Client, SOON, all, can_run, departed, join, queue, read, server, soon, tickets, until_asleep, url, wake,
};
use crate::statement::{Argument, Row, What};

fn resume(client: &Client, epoch: i64, beat: i64, tickets: &[u128]) -> Vec<Argument> {
    let tickets = Argument::Ids(tickets.to_vec());
    vec![client.session.into(), Argument::Int(epoch), Argument::Int(beat), tickets]
}

fn beat(client: &Client, epoch: i64, beat: i64, awaited: &[u128], ring: i64) -> Vec<Argument> {
    let (roll, awaited) = (Argument::Ids(Vec::new()), Argument::Ids(awaited.to_vec()));
    vec![client.session.into(), Argument::Int(epoch), Argument::Int(beat), roll, awaited, Argument::Int(ring)]
}

fn reap(client: &Client, epoch: i64, beat: i64) -> Vec<Argument> {
    vec![client.session.into(), Argument::Int(epoch), Argument::Int(beat)]
}

fn text(text: &str) -> Argument {
    Argument::Text(text.to_owned())
}

#[tokio::test]
async fn a_session_goes_on_over_a_new_connection_with_the_places_that_its_client_knows() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let old = Client::open(&url(&server), 1).await;
    for (beat_number, word) in [(2, "ok"), (3, "ok"), (3, "stale"), (2, "stale")] {
        assert_eq!(old.told("beat", beat(&old, 1, beat_number, &[], 0)).await.0, word, "beat {beat_number}");
    }
    for ticket in [10, 11] {
        old.join("door", ticket).await;
    }
    let new = Client::connect(&url(&server), 1).await;
    assert_eq!(new.told("resume", resume(&new, 2, 3, &[])).await.0, "stale", "the beat is no later");
    let rows = new.ok("resume", resume(&new, 2, 4, &[11, 12])).await;
    assert_eq!(tickets(&rows, What::Stands), [11], "the other was never joined");
    assert_eq!(queue(&new, "door").await, [11], "and the first is not known any more");
    assert_eq!(old.told("beat", beat(&old, 1, 9, &[], 0)).await.0, "stale");
    assert_eq!(read(soon("a join", old.joining("door", 13)).await.expect("an answer")).0, "stale");
    assert_eq!(new.told("beat", beat(&new, 2, 5, &[], 0)).await.0, "ok");
    server.ask("DELETE FROM lockkeeper.session").await.expect("an operator's removal");
    assert_eq!(new.told("beat", beat(&new, 2, 6, &[], 0)).await.0, "gone");
    assert_eq!(new.told("resume", resume(&new, 3, 6, &[11])).await.0, "gone");
    assert_eq!(new.told("join", join(new.session, 2, "door", &[14], &[0])).await.0, "gone");
    assert_eq!(queue(&new, "door").await, [0_u128; 0]);
}

#[tokio::test]
async fn a_beat_shows_the_sessions_that_are_waited_for_and_the_next_of_the_ring() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let mut clients = Vec::new();
    for session in [1, 2, 3, 4, 5] {
        clients.push(Client::open(&url(&server), session).await);
    }
    clients[0].join("door", 10).await;
    let shown = |rows: &[Row]| -> Vec<_> {
        let mut shown: Vec<_> = all(rows, What::Beat).iter().map(|row| row.session.expect("a session")).collect();
        shown.sort_unstable();
        shown
    };
    let rows = clients[3].ok("beat", beat(&clients[3], 1, 2, &[10, 77], 0)).await;
    assert_eq!(shown(&rows), [1]);
    assert_eq!(tickets(&rows, What::Owner), [10]);
    assert_eq!(tickets(&rows, What::Missing), [77]);
    let rows = clients[3].ok("beat", beat(&clients[3], 1, 3, &[], 2)).await;
    assert_eq!(shown(&rows), [1, 5], "it begins again with the least number");
    let seen = all(&rows, What::Beat)[0];
    assert_eq!((seen.number, seen.epoch, seen.timeout_ms), (Some(1), Some(1), Some(10_000)));
    let rows = clients[3].ok("beat", beat(&clients[3], 1, 4, &[10], 1_000)).await;
    assert_eq!(shown(&rows), [1, 2, 3, 5]);
}

#[tokio::test]
async fn a_session_is_removed_only_as_it_was_seen_and_not_while_a_row_of_its_is_pinned() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let dead = Client::open(&url(&server), 1).await;
    let mut next = Client::open(&url(&server), 2).await;
    assert!(soon("listening", next.wire.listen(next.session)).await.expect("an answer"));
    dead.join("door", 10).await;
    next.join("door", 20).await;
    let word = async |epoch, beat| next.told("reap", reap(&dead, epoch, beat)).await.0;
    assert_eq!([word(1, 2).await, word(2, 1).await], ["alive", "alive"]);
    let pin = "BEGIN; SELECT 1 FROM lockkeeper.contender WHERE ticket = '00000000-0000-0000-0000-00000000000a' \
               FOR KEY SHARE; SELECT pg_sleep(600); COMMIT";
    let pinning = async { server.ask(pin).await.expect_err("a transaction that pins, until it is woken") };
    let reaping = async {
        until_asleep(&server).await;
        let told = word(1, 1).await;
        wake(&server).await;
        told
    };
    assert_eq!(tokio::join!(pinning, reaping).1, "pinned");
    let locking = "BEGIN; SELECT 1 FROM lockkeeper.session WHERE epoch = 1 FOR SHARE; SELECT pg_sleep(600); COMMIT";
    let locking = async { server.ask(locking).await.expect_err("a transaction that locks, until it is woken") };
    let reaping = async {
        until_asleep(&server).await;
        let told = word(1, 1).await;
        wake(&server).await;
        told
    };
    assert_eq!(tokio::join!(locking, reaping).1, "busy");
    // The server tells of the error before it lets go of the row.
    let let_go = async || Some(word(1, 1).await).filter(|told| told != "busy");
    let told = wait::until("the row to be let go", SOON, let_go).await.expect("it is let go");
    assert_eq!([told, word(1, 1).await], ["removed", "alive"], "then there is none any more");
    assert_eq!(next.hint().await, departed(10));
    assert_eq!(queue(&next, "door").await, [20]);
}

#[tokio::test]
async fn a_session_is_closed_a_thousand_contenders_at_a_time() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    for first in [0, 1_000] {
        let tickets: Vec<u128> = (first..first + 1_000).map(|ticket| 1 << 64 | ticket).collect();
        client.ok("join", join(client.session, 1, "door", &tickets, &[0; 1_000])).await;
    }
    client.join("door", 9).await;
    let mut left = Vec::new();
    while left.last() != Some(&0) {
        let rows = soon("a close", client.call("close", vec![client.session.into()])).await.expect("an answer");
        left.push(rows[0].number.expect("a count"));
    }
    assert_eq!(left, [1_001, 1, 0]);
    assert_eq!(server.value("SELECT count(*) FROM lockkeeper.session").await.expect("a count"), "0");
}

#[tokio::test]
async fn tokens_grow_over_a_wiped_schema_and_over_the_removal_of_idle_queues() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let token = |rows: &[Row]| all(rows, What::Stored)[0].number.expect("a token");
    let client = Client::open(&url(&server), 1).await;
    let before = token(&client.join("door", 10).await);
    drop(client);
    server.ask("DROP SCHEMA lockkeeper CASCADE").await.expect("the schema is dropped");
    let client = Client::open(&url(&server), 1).await;
    let wiped = token(&client.join("door", 10).await);
    assert!(wiped > before, "{wiped} after {before}");

    client.join("busy", 11).await;
    client.leave("door", 10).await;
    let days_ago = "((extract(epoch FROM now() - interval '2 days') * 1000)::bigint << 20) + 5";
    server.ask(&format!("UPDATE lockkeeper.queue SET last = {days_ago}")).await.expect("they are idle");
    let idle = server.value("SELECT last FROM lockkeeper.queue WHERE name = 'door'").await.expect("a number");
    let sweep = vec![Argument::Id(2), Argument::Int(4_000), text("another"), Argument::Flag(true)];
    client.ok("open", sweep).await;
    assert_eq!(server.value("SELECT string_agg(name, ' ') FROM lockkeeper.queue").await.expect("names"), "busy");
    assert_eq!(server.value("SELECT floor FROM lockkeeper.meta").await.expect("a number"), idle);
    // As if the server's clock had been set back.
    let ahead = i64::MAX / 2;
    assert!(ahead > wiped);
    server.ask(&format!("UPDATE lockkeeper.meta SET floor = {ahead}")).await.expect("a floor");
    let rows = client.ok("join", join(client.session, 1, "new", &[20, 21], &[0, 0])).await;
    let numbers: Vec<_> = all(&rows, What::Stored).iter().map(|row| row.number.expect("a token")).collect();
    assert_eq!(numbers, [ahead + 1, ahead + 2]);
    let version = vec![
        client.session.into(),
        Argument::Int(1),
        text("value"),
        Argument::Int(0),
        Argument::Int(0),
        Argument::Int(0),
        Argument::OptionalBytes(Some(vec![1])),
    ];
    let rows = soon("a value", client.call("set_value", version)).await.expect("an answer");
    assert_eq!(rows[0].number, Some(ahead + 1));
}

#[tokio::test]
async fn a_queue_that_gives_out_no_more_numbers_says_so() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let client = Client::open(&url(&server), 1).await;
    client.join("door", 10).await;
    server.ask(&format!("UPDATE lockkeeper.queue SET last = {}", i64::MAX - (1 << 40))).await.expect("an update");
    assert_eq!(client.told("join", join(client.session, 1, "door", &[11], &[0])).await.0, "full");
    assert_eq!(queue(&client, "door").await, [10]);
}

#[tokio::test]
async fn who_watches_a_queue_is_told_of_each_change_and_sees_its_value() {
    if !can_run() {
        return;
    }
    let server = server().await;
    let mut watcher = Client::open(&url(&server), 1).await;
    let other = Client::open(&url(&server), 2).await;
    assert!(soon("listening", watcher.wire.listen(watcher.session)).await.expect("an answer"));
    let set = |expected: i64, version: i64, bytes: Option<&[u8]>| {
        vec![
            other.session.into(),
            Argument::Int(1),
            text("door"),
            Argument::Int(0),
            Argument::Int(expected),
            Argument::Int(version),
            Argument::OptionalBytes(bytes.map(<[u8]>::to_vec)),
        ]
    };
    other.join("door", 20).await;
    other.ok("set_value", set(0, 0, Some(b"one"))).await;
    let watch = vec![watcher.session.into(), Argument::Int(1), text("door"), Argument::Int(0)];
    let rows = watcher.ok("watch", watch).await;
    assert_eq!(tickets(&rows, What::Contender), [20]);
    let value = all(&rows, What::Value)[0];
    assert_eq!(value.bytes.as_deref(), Some(&b"one"[..]));
    let version = value.number.expect("a version");
    let changed = Hint::Changed { name: "door".to_owned(), part: 0 };
    other.join("door", 21).await;
    assert_eq!(watcher.hint().await, changed);
    other.leave("door", 20).await;
    assert_eq!(watcher.hint().await, changed);
    assert_eq!(other.told("set_value", set(1, 0, Some(b"two"))).await.0, "no", "there is one");
    assert_eq!(other.told("set_value", set(2, version + 1, Some(b"two"))).await.0, "no", "it has another version");
    watcher.assert_untold().await;
    other.ok("set_value", set(2, version, None)).await;
    assert_eq!(watcher.hint().await, changed);
    let rows = soon("a value", other.call("set_value", set(1, 0, Some(b"three")))).await.expect("an answer");
    assert!(rows[0].number > Some(version), "a version is never used twice");
    assert_eq!(watcher.hint().await, changed);
    watcher.ok("unwatch", vec![watcher.session.into(), text("door"), Argument::Int(0)]).await;
    other.join("door", 22).await;
    watcher.assert_untold().await;
}

#[tokio::test]
async fn transactions_that_are_repeatable_by_default_do_no_harm() {
    if !can_run() {
        return;
    }
    for level in ["repeatable read", "serializable"] {
        let server = server().await;
        server.ask(&format!("ALTER DATABASE postgres SET default_transaction_isolation = '{level}'")).await.unwrap();
        let mut tasks = Vec::new();
        for session in 1..=4 {
            let client = Client::open(&url(&server), session).await;
            tasks.push(tokio::spawn(async move {
                for number in 0..20 {
                    let ticket = client.session.0 << 64 | number;
                    client.join("door", ticket).await;
                    assert_eq!(client.leave("door", ticket).await, "left");
                }
            }));
        }
        for task in tasks {
            soon("the end of a task", task).await.expect("it joined and left");
        }
        // Over a connection without our settings they are refused, as nothing could be relied on.
        let id = "00000000-0000-0000-0000-000000000001";
        let leave = format!("BEGIN ISOLATION LEVEL {level}; SELECT lockkeeper.leave_v1('{id}', 'door', 0, '{id}')");
        let error = server.ask(&leave).await.expect_err("it is refused").to_string();
        assert!(error.contains("LK001"), "{error}");
    }
}
