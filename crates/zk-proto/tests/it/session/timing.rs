//! Pings, silence and handshakes that are not answered.

use std::time::Duration;

use lockkeeper_zk_proto::client::*;
use lockkeeper_zk_proto::message::*;

use super::pair::*;

/// Lets time pass with a server that answers each ping at once; tells when pings arrived.
fn answer_pings(pair: &mut Pair, until: u64) -> Vec<u64> {
    let mut pinged_at = Vec::new();
    while pair.now < until {
        pair.advance_to(pair.now + 1);
        for (header, request) in pair.arrivals() {
            assert_eq!(request, ZkRequest::Ping);
            pinged_at.push(pair.now);
            pair.answer(header.xid, &ZkResponse::Done);
        }
    }
    pinged_at
}

#[test]
fn a_session_pings_ten_times_a_timeout() {
    let mut pair = Pair::online();
    assert_eq!(answer_pings(&mut pair, 5_000), [2_200, 3_400, 4_600]);
    assert_eq!(pair.events(), []);
}

#[test]
fn requests_take_the_place_of_pings() {
    let mut pair = Pair::online();
    for n in 0..10 {
        pair.advance_to(1_000 + (n + 1) * 1_100);
        assert_eq!(pair.arrivals(), [], "no ping");
        pair.submit(exists("/a"));
        let (header, _) = pair.arrival();
        pair.answer(header.xid, &stat());
    }
}

#[test]
fn a_ping_that_waits_for_the_socket_is_one_ping() {
    let mut pair = Pair::online();
    let due = pair.client.poll_timeout().unwrap();
    for _ in 0..3 {
        pair.client.handle_timeout(due);
    }
    pair.now = 5_000;
    assert_eq!(pair.arrivals().len(), 1);
}

#[test]
fn a_server_that_goes_silent_is_given_up_a_third_of_the_timeout_after_it_was_asked() {
    let mut pair = Pair::online();
    pair.advance_to(2_200 + 3_999);
    assert_eq!(pair.client.state(), SessionState::Online);
    pair.advance_to(2_200 + 4_000);
    assert_eq!(pair.disconnect_reason(), DisconnectReason::Silent);
    assert_eq!(pair.client.poll_timeout(), pair.in_ms(TIMEOUT_MS), "then the session itself is given up");
}

#[test]
fn a_server_that_takes_no_bytes_is_given_up_too() {
    let mut pair = Pair::online();
    let due = pair.client.poll_timeout().unwrap();
    pair.client.handle_timeout(due);
    // The socket is full: nothing is handed out.
    let dead = pair.client.poll_timeout().unwrap();
    assert_eq!(dead.since(due), Duration::from_millis(4_000));
    pair.client.handle_timeout(dead);
    assert_eq!(pair.disconnect_reason(), DisconnectReason::Silent);
}

#[test]
fn any_sign_of_the_server_puts_the_end_off() {
    let mut pair = Pair::online();
    pair.send(exists("/slow"));
    pair.advance_to(4_500);
    pair.notify(WatchEventKind::NodeCreated, "/x");
    pair.advance_to(8_000);
    assert_eq!(pair.client.state(), SessionState::Online);
    pair.advance_to(8_500);
    assert_eq!(pair.client.state(), SessionState::Offline);
}

#[test]
fn a_long_pause_with_nothing_unanswered_costs_a_ping_and_not_the_connection() {
    let mut pair = Pair::online();
    pair.now = 500_000;
    pair.client.handle_timeout(pair.time());
    assert_eq!(pair.client.state(), SessionState::Online);
    assert_eq!(pair.arrivals().len(), 1);
}

#[test]
fn a_handshake_must_be_answered_in_time() {
    let mut pair = Pair::new();
    pair.dial();
    pair.advance_to(1_000 + 3_999);
    assert_eq!(pair.client.state(), SessionState::Handshake);
    pair.advance_to(1_000 + 4_000);
    let epoch = pair.client.epoch();
    let reason = DisconnectReason::HandshakeTimeout;
    assert_eq!(pair.event(), SessionEvent::Disconnected { epoch, reason });

    let mut pair = Pair::new();
    pair.client.limit_handshakes(Duration::from_millis(50));
    pair.dial();
    pair.advance_to(1_050);
    assert_eq!(pair.client.state(), SessionState::Offline);
}

#[test]
fn a_session_goes_on_over_a_new_connection_after_a_stall_once_everything_is_answered() {
    let mut pair = Pair::online();
    pair.send(ZkRequest::Delete { path: "/a".into(), version: -1 });
    assert!(!pair.client.renew(pair.time()), "nothing has stood still");
    pair.answer(1, &ZkResponse::Done);
    pair.events();
    pair.now += TIMEOUT_MS / 2;
    pair.send(ZkRequest::Delete { path: "/a".into(), version: -1 });
    pair.submit(create("/b"));
    assert!(pair.client.renew(pair.time()));
    assert_eq!(pair.pump().len(), 0, "nothing more goes out on this connection");
    assert_eq!(pair.client.state(), SessionState::Online);
    pair.answer(2, &ZkResponse::Done);
    assert_eq!(pair.disconnect_reason(), DisconnectReason::Renewed);
    assert_eq!(pair.dial().session_id, SESSION_ID);
    pair.grant(TIMEOUT_MS, SESSION_ID);
    assert!(replies(pair.events()).is_empty(), "no request has failed");
    assert_eq!(pair.arrivals().len(), 1);
    assert!(!pair.client.renew(pair.time()), "the new connection has not stood still");
}
