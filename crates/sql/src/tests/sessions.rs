//! Sessions: beats, new connections, removal, their end, jumps of the server's clock; tokens over the loss of data, and
//! values.

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_faults::wait;

use super::client::{all, departed, open, read, tickets, token};
use super::server::{Kind, Need, Server, each, each_with, server};
use crate::statement::{AnswerRow, Argument, RowKind};

#[tokio::test]
async fn a_session_goes_on_over_a_new_connection_with_the_places_that_its_client_knows() {
    for server in each().await {
        let old = server.open(1).await;
        for (beat, word) in [(2, "ok"), (3, "ok"), (3, "stale"), (2, "stale")] {
            assert_eq!(old.told("beat", old.to_beat(1, beat, [&[]; 2], 0)).await.0, word, "beat {beat}");
        }
        for ticket in [10, 11] {
            old.join("door", ticket).await;
        }
        let new = server.connect(1).await;
        assert_eq!(new.told("resume", new.to_resume(2, 3, &[])).await.0, "stale", "the beat is no later");
        let rows = new.ok("resume", new.to_resume(2, 4, &[11, 12])).await;
        assert_eq!(tickets(&rows, RowKind::Stands), [11], "the other was never joined");
        assert_eq!(new.queue("door").await, [11], "and the first is not known any more");
        assert_eq!(old.told("beat", old.to_beat(1, 9, [&[]; 2], 0)).await.0, "stale");
        assert_eq!(read(soon("a join", old.joining("door", 13)).await.expect("an answer")).0, "stale");
        assert_eq!(new.told("beat", new.to_beat(2, 5, [&[]; 2], 0)).await.0, "ok");
        // Nothing is deleted by another deletion on MariaDB.
        for table in ["contender", "session"] {
            server.ask(&format!("DELETE FROM lockkeeper.{table}")).await.expect("an operator's removal");
        }
        assert_eq!(new.told("beat", new.to_beat(2, 6, [&[]; 2], 0)).await.0, "gone");
        assert_eq!(new.told("resume", new.to_resume(3, 6, &[11])).await.0, "gone");
        assert_eq!(new.told("join", new.to_join("door", &[14], &[0])).await.0, "gone");
        assert_eq!(new.queue("door").await, [0_u128; 0]);
    }
}

#[tokio::test]
async fn a_beat_shows_the_sessions_that_are_waited_for_and_the_next_of_the_ring() {
    for server in each().await {
        let mut clients = Vec::new();
        for session in 1..=5 {
            clients.push(server.open(session).await);
        }
        clients[0].join("door", 10).await;
        let shown = |rows: &[AnswerRow]| -> Vec<_> {
            let mut shown: Vec<_> =
                all(rows, RowKind::Beat).iter().map(|row| row.session.expect("a session")).collect();
            shown.sort_unstable();
            shown
        };
        let beat = async |beat, awaited: &[u128], ring| {
            clients[3].ok("beat", clients[3].to_beat(1, beat, [&[], awaited], ring)).await
        };
        let rows = beat(2, &[10, 77], 0).await;
        assert_eq!(shown(&rows), [1]);
        assert_eq!(tickets(&rows, RowKind::Owner), [10]);
        assert_eq!(tickets(&rows, RowKind::Missing), [77]);
        let rows = beat(3, &[], 2).await;
        assert_eq!(shown(&rows), [1, 5], "it begins again with the least number");
        let seen = all(&rows, RowKind::Beat)[0];
        assert_eq!((seen.number, seen.epoch, seen.timeout_ms), (Some(1), Some(1), Some(10_000)));
        assert_eq!(shown(&beat(4, &[10], 1_000).await), [1, 2, 3, 5]);
    }
}

#[tokio::test]
async fn a_session_is_removed_only_as_it_was_seen_and_not_while_a_row_of_its_is_pinned() {
    let Some(server) = server(Kind::Postgres).await else { return };
    let (dead, mut next) = (server.open(1).await, server.open(2).await);
    assert!(next.listens().await);
    dead.join("door", 10).await;
    next.join("door", 20).await;
    let word = async |epoch, beat| {
        let arguments = vec![dead.session.into(), Argument::Int(epoch), Argument::Int(beat)];
        next.told("reap", arguments).await.0
    };
    assert_eq!([word(1, 2).await, word(2, 1).await], ["alive", "alive"]);
    let pinned = "SELECT 1 FROM lockkeeper.contender WHERE ticket = '00000000-0000-0000-0000-00000000000a' \
                  FOR KEY SHARE";
    let locked = "SELECT 1 FROM lockkeeper.session WHERE epoch = 1 FOR SHARE";
    for (query, expected) in [(pinned, "pinned"), (locked, "busy")] {
        let reaping = async {
            server.until_asleep().await;
            let told = word(1, 1).await;
            server.wake().await;
            told
        };
        assert_eq!(tokio::join!(server.hold(query), reaping).1, expected);
    }
    // The server tells of the error before it lets go of the row.
    let let_go = async || Some(word(1, 1).await).filter(|told| told != "busy");
    let told = wait::until("the row to be let go", SOON, let_go).await.expect("it is let go");
    assert_eq!([told, word(1, 1).await], ["removed", "alive"], "then there is none any more");
    assert_eq!(next.hint().await, departed(10));
    assert_eq!(next.queue("door").await, [20]);
}

#[tokio::test]
async fn a_session_is_closed_a_thousand_contenders_at_a_time() {
    for server in each().await {
        let client = server.open(1).await;
        for first in [0, 1_000] {
            let tickets: Vec<u128> = (first..first + 1_000).map(|ticket| 1 << 64 | ticket).collect();
            client.ok("join", client.to_join("door", &tickets, &[0; 1_000])).await;
        }
        client.join("door", 9).await;
        let mut left = Vec::new();
        while left.last() != Some(&0) {
            let rows = client.rows("close", vec![client.session.into()]).await;
            left.push(rows[0].number.expect("a count"));
        }
        assert_eq!(left, [1_001, 1, 0]);
        assert_eq!(server.value("SELECT count(*) FROM lockkeeper.session").await.expect("a count"), "0");
    }
}

#[tokio::test]
async fn tokens_grow_over_a_wiped_schema_and_over_the_removal_of_idle_queues() {
    for server in each().await {
        let client = server.open(1).await;
        let before = token(&client.join("door", 10).await);
        drop(client);
        server.wipe().await;
        let client = server.open(1).await;
        let wiped = token(&client.join("door", 10).await);
        assert!(wiped > before, "{wiped} after {before}");

        client.join("busy", 11).await;
        client.leave("door", 10).await;
        // Two days ago.
        let idle = wiped - ((2 * 86_400_000) << 20);
        server.ask(&format!("UPDATE lockkeeper.queue SET last = {idle}")).await.expect("they are idle");
        let mut sweep = open(2, 4_000);
        sweep[3] = Argument::Flag(true);
        client.ok("open", sweep).await;
        let names = server.ask("SELECT name FROM lockkeeper.queue").await.expect("names");
        assert_eq!(names, [[Some("busy".to_owned())]]);
        assert_eq!(server.value("SELECT floor FROM lockkeeper.meta").await.expect("a number"), idle.to_string());
        // As if the server's clock had been set back.
        let ahead = i64::MAX / 2;
        assert!(ahead > wiped);
        server.ask(&format!("UPDATE lockkeeper.meta SET floor = {ahead}")).await.expect("a floor");
        let rows = client.ok("join", client.to_join("new", &[20, 21], &[0, 0])).await;
        let numbers: Vec<_> = all(&rows, RowKind::Stored).iter().map(|row| row.number.expect("a token")).collect();
        assert_eq!(numbers, [ahead + 1, ahead + 2]);
        let set = client.rows("set_value", client.to_set("value", 0, 0, Some(b"one"))).await;
        assert_eq!(set[0].number, Some(ahead + 1));
    }
}

#[tokio::test]
async fn a_queue_that_gives_out_no_more_numbers_says_so() {
    for server in each().await {
        let client = server.open(1).await;
        client.join("door", 10).await;
        let last = i64::MAX - (1 << 40);
        server.ask(&format!("UPDATE lockkeeper.queue SET last = {last}")).await.expect("an update");
        assert_eq!(client.told("join", client.to_join("door", &[11], &[0])).await.0, "full");
        assert_eq!(client.queue("door").await, [10]);
    }
}

#[tokio::test]
async fn a_value_is_changed_as_it_was_seen_alone_and_who_watches_its_queue_sees_it() {
    for server in each().await {
        let client = server.open(1).await;
        client.join("door", 20).await;
        client.ok("set_value", client.to_set("door", 0, 0, Some(b"one"))).await;
        let watch = vec![client.session.into(), Argument::Int(1), super::client::text("door"), Argument::Int(0)];
        let rows = client.ok("watch", watch).await;
        assert_eq!(tickets(&rows, RowKind::Contender), [20]);
        let value = all(&rows, RowKind::Value)[0];
        assert_eq!(value.bytes.as_deref(), Some(&b"one"[..]));
        let version = value.number.expect("a version");
        let set = async |expected, version, bytes| {
            client.rows("set_value", client.to_set("door", expected, version, bytes)).await.remove(0)
        };
        assert_eq!(set(1, 0, Some(b"two")).await.text.as_deref(), Some("no"), "there is one");
        assert_eq!(set(2, version + 1, Some(b"two")).await.text.as_deref(), Some("no"), "it has another version");
        assert_eq!(set(2, version, None).await.text.as_deref(), Some("ok"));
        assert!(set(1, 0, Some(b"three")).await.number > Some(version), "a version is never used twice");
    }
}

#[tokio::test]
async fn transactions_that_are_repeatable_by_default_do_no_harm() {
    let Some(server) = server(Kind::Postgres).await else { return };
    for level in ["repeatable read", "serializable"] {
        server.ask(&format!("ALTER DATABASE postgres SET default_transaction_isolation = '{level}'")).await.unwrap();
        let mut tasks = Vec::new();
        for session in 1..=4 {
            let client = server.open(session).await;
            tasks.push(tokio::spawn(async move {
                for number in 0..20 {
                    let ticket = client.session.0 << 64 | number;
                    client.join("door", ticket).await;
                    assert_eq!(client.leave("door", ticket).await, "left");
                }
                client.close().await;
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

/// How far the clock jumps, in seconds: longer than any session lives without a beat.
const JUMP_S: i64 = 3_600;

/// Has a holder beat, moves the server's clock and has another session beat; returns whether the holder stands.
async fn stands_over_a_jump(server: &Server, sessions: [u128; 2]) -> bool {
    let [holder, other] = sessions;
    let (holder, other) = (server.open(holder).await, server.open(other).await);
    holder.join("door", holder.session.0 * 10).await;
    for client in [&holder, &other] {
        client.ok("beat", client.to_beat(1, 2, [&[]; 2], 8)).await;
    }
    server.move_clock(JUMP_S).await;
    other.ok("beat", other.to_beat(1, 3, [&[]; 2], 8)).await;
    let stands = other.queue("door").await == [holder.session.0 * 10];
    server.move_clock(0).await;
    holder.close().await;
    other.close().await;
    stands
}

#[tokio::test]
async fn a_holder_stands_though_the_servers_clock_jumps_and_beats_by_that_clock_are_caught() {
    for server in each_with(Need::Clock).await {
        drop(server.connect(1).await);
        assert!(stands_over_a_jump(&server, [1, 2]).await);
        let (kind, now) = server.either(("timestamptz", "clock_timestamp()"), ("datetime(6)", "SYSDATE(6)"));
        let column = format!("ALTER TABLE lockkeeper.session ADD COLUMN seen {kind} NOT NULL DEFAULT {now}");
        server.ask(&column).await.expect("a column");
        // A beat as it is, and one that keeps the server's time and removes the sessions whose time is long past.
        let set = server.either("SET ", "SET s.");
        let own = "WHERE s.id = p_session AND s.epoch = p_epoch AND s.beat < p_beat;\n";
        let beat = format!("  UPDATE lockkeeper.session s {set}beat = p_beat {own}");
        let timeout =
            server.either("s.timeout_ms * interval '1 millisecond'", "INTERVAL s.timeout_ms * 1000 MICROSECOND");
        let by_the_servers_clock = format!(
            "  DELETE FROM lockkeeper.contender WHERE session IN (SELECT s.id FROM lockkeeper.session s \
             WHERE s.id <> p_session AND s.seen < {now} - {timeout});\n  \
             UPDATE lockkeeper.session s {set}beat = p_beat, seen = {now} {own}"
        );
        server.plant(&[(&beat, &by_the_servers_clock)]).await;
        assert!(!stands_over_a_jump(&server, [3, 4]).await, "the planted fault was not seen");
    }
}
