//! The server's clock jumps: no session is judged by it.

use std::thread;

use lockkeeper_faults::postgres::{Server, Setup, clock_availability};

use crate::postgres::tests::support::{Client, can_run, plant, queue, url};
use crate::statement::Argument;

/// How far the clock jumps, in seconds: longer than any session lives without a beat.
const JUMP_S: i64 = 3_600;

/// A beat as it is, and one that keeps the server's time and removes the sessions whose time is long past.
const BY_THE_SERVERS_CLOCK: (&str, &str) = (
    "  UPDATE lockkeeper.session s SET beat = p_beat WHERE s.id = p_session AND s.epoch = p_epoch \
     AND s.beat < p_beat;\n",
    "  DELETE FROM lockkeeper.contender c USING lockkeeper.session s WHERE c.session = s.id AND s.id <> p_session
    AND s.seen < clock_timestamp() - s.timeout_ms * interval '1 millisecond';
  UPDATE lockkeeper.session s SET beat = p_beat, seen = clock_timestamp()
    WHERE s.id = p_session AND s.epoch = p_epoch AND s.beat < p_beat;\n",
);

/// Has a holder beat, moves the server's clock and has another session beat; returns whether the holder stands.
async fn stands_over_a_jump(server: &Server, sessions: [u128; 2]) -> bool {
    let [holder, other] = sessions;
    let holder = Client::open(&url(server), holder).await;
    let other = Client::open(&url(server), other).await;
    holder.join("door", holder.session.0 * 10).await;
    for client in [&holder, &other] {
        client.ok("beat", beat(client, 2)).await;
    }
    server.move_clock(JUMP_S).await.expect("another time");
    other.ok("beat", beat(&other, 3)).await;
    let stands = queue(&other, "door").await == [holder.session.0 * 10];
    server.move_clock(0).await.expect("the time");
    for client in [holder, other] {
        client.ok("close", vec![client.session.into()]).await;
    }
    stands
}

fn beat(client: &Client, beat: i64) -> Vec<Argument> {
    let none = || Argument::Ids(Vec::new());
    vec![client.session.into(), Argument::Int(1), Argument::Int(beat), none(), none(), Argument::Int(8)]
}

#[tokio::test]
async fn a_holder_stands_though_the_servers_clock_jumps_and_beats_by_that_clock_are_caught() {
    let name = thread::current().name().expect("the harness names the thread of a test").to_owned();
    if !can_run() || !clock_availability().or_skip(&name) {
        return;
    }
    let server = Setup::new().movable_clock().start().await.expect("a server");
    drop(Client::connect(&url(&server), 1).await);
    assert!(stands_over_a_jump(&server, [1, 2]).await);
    let column = "ALTER TABLE lockkeeper.session ADD COLUMN seen timestamptz NOT NULL DEFAULT clock_timestamp()";
    server.ask(column).await.expect("a column");
    plant(&server, &[BY_THE_SERVERS_CLOCK]).await;
    assert!(!stands_over_a_jump(&server, [3, 4]).await, "the planted fault was not seen");
}
