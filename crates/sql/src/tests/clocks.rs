//! The server's clock jumps: no session is judged by it.

use super::server::{Need, Server, each_with};

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
