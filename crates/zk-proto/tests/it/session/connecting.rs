//! Handshakes, reconnects, credentials, and servers of another kind.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::client::*;
use lockkeeper_zk_proto::frame::FRAME_BYTES_DEFAULT_MAX as MAX;
use lockkeeper_zk_proto::message::*;
use lockkeeper_zk_proto::time::Timestamp;

use super::pair::*;

#[test]
fn the_first_handshake_asks_for_a_new_session() {
    let mut pair = Pair::new();
    let request = pair.dial();
    assert_eq!((request.session_id, request.last_zxid_seen, request.timeout_ms), (0, 0, 12_000));
    assert_eq!(request.password.as_deref(), Some(&[0; 16][..]), "ZooKeeper 3.4 does not answer where there is none");
    assert_eq!(pair.client.state(), SessionState::Handshake);
    pair.grant(6_000, SESSION_ID);
    let epoch = pair.client.epoch();
    assert_eq!(pair.events(), [SessionEvent::Connected { epoch }, SessionEvent::WatchesRestored { epoch }]);
    assert_eq!((epoch.number(), pair.client.timeout()), (1, Some(Duration::from_secs(6))));
    assert_eq!(pair.client.credentials().unwrap().session_id, SESSION_ID);
    assert_eq!(pair.client.state(), SessionState::Online);
}

#[test]
fn a_later_handshake_goes_on_with_the_session_and_asks_for_the_same_timeout() {
    let mut pair = Pair::new();
    pair.dial();
    pair.grant(6_000, SESSION_ID);
    pair.submit(exists("/a"));
    let (header, _) = pair.arrival();
    pair.answer(header.xid, &stat());
    pair.events();
    let lost = pair.hang_up();
    let epoch = pair.client.epoch();
    assert_eq!(lost, [SessionEvent::Disconnected { epoch, reason: DisconnectReason::Closed }]);

    let request = pair.dial();
    assert_eq!((request.session_id, request.timeout_ms), (SESSION_ID, 12_000));
    assert_eq!(request.password.as_deref(), Some(&b"0123456789abcdef"[..]));
    assert_eq!(request.last_zxid_seen, 101, "what the reply told");
    pair.grant(30_000, SESSION_ID);
    assert_eq!(pair.client.epoch().number(), 2);
    assert_eq!(pair.client.anchor().timeout_least(), Some(Duration::from_secs(6)), "the least one is kept");
    assert!(!format!("{:?}", pair.client).contains("0123456789abcdef"), "the password is not shown");
}

#[test]
fn the_service_says_that_the_session_is_over_by_refusing_the_handshake() {
    for (timeout_ms, session_id) in [(0, 0), (0, SESSION_ID), (6_000, SESSION_ID + 1)] {
        let mut pair = Pair::online();
        pair.hang_up();
        let waiting = pair.submit(create("/a"));
        pair.dial();
        pair.grant(timeout_ms, session_id);
        let events = pair.events();
        assert_eq!(events[0], SessionEvent::Over(SessionLoss::Expired));
        let replies = replies(events);
        assert_eq!(replies[0].id, waiting);
        assert_eq!(replies[0].outcome, Err(RequestError::NotSent(WhyUnsent::Over(SessionLoss::Expired))));
        assert_eq!(pair.client.state(), SessionState::Over(SessionLoss::Expired));
        assert_eq!(pair.client.safe_until(), None);
        assert_eq!(pair.client.submit(&exists("/a"), None), Err(SubmitError::Over(SessionLoss::Expired)));
        pair.client.handle_connected(pair.time());
        assert_eq!(pair.client.poll_transmit(pair.time()), None, "it stays over");
        assert_eq!(pair.client.poll_timeout(), None);
    }
}

#[test]
fn a_session_that_no_server_goes_on_with_for_a_whole_timeout_is_given_up() {
    let mut pair = Pair::online();
    pair.advance_to(5_000);
    pair.hang_up();
    let waiting = pair.submit(exists("/a"));
    // A server that lags behind what we have seen closes every connection without a reply.
    for second in 6..17 {
        pair.advance_to(second * 1_000 - 1);
        assert_eq!(pair.dial().session_id, SESSION_ID);
        assert!(!matches!(pair.hang_up().last(), Some(SessionEvent::Over(_))), "after {second} s");
    }
    pair.dial();
    assert_eq!(pair.client.poll_timeout(), Some(Timestamp::from_millis(5_000 + TIMEOUT_MS)));
    pair.advance_to(5_000 + TIMEOUT_MS);
    let events = pair.events();
    assert_eq!(events[0], SessionEvent::Over(SessionLoss::OutOfReach));
    let unsent = RequestError::NotSent(WhyUnsent::Over(SessionLoss::OutOfReach));
    let told = replies(events);
    assert_eq!((told[0].id, &told[0].outcome), (waiting, &Err(unsent)));
    assert_eq!(pair.client.poll_timeout(), None);
}

#[test]
fn a_server_that_goes_on_with_the_session_gives_it_a_whole_timeout_again() {
    let mut pair = Pair::online();
    for _ in 0..3 {
        pair.hang_up();
        pair.advance_to(pair.now + TIMEOUT_MS - 1);
        pair.go_online();
    }
    assert_eq!(pair.client.state(), SessionState::Online);
}

#[test]
fn a_refused_new_session_is_not_an_expired_one() {
    let mut pair = Pair::new();
    pair.dial();
    pair.grant(0, 0);
    assert_eq!(pair.disconnect_reason(), DisconnectReason::Protocol(ProtocolError::SessionRefused));
    assert_eq!(pair.client.state(), SessionState::Offline);
}

#[test]
fn a_server_that_serves_reads_alone_is_left() {
    let mut pair = Pair::new();
    pair.dial();
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 6_000,
        session_id: SESSION_ID,
        password: None,
        read_only: ReadOnlyFlag::Yes,
    };
    pair.say(&response.to_frame(MAX).unwrap());
    assert_eq!(pair.disconnect_reason(), DisconnectReason::ReadOnlyServer);
}

#[test]
fn a_server_of_another_kind_is_told_by_its_first_bytes() {
    let mut pair = Pair::new();
    pair.dial();
    pair.client.handle_bytes(pair.time(), b"SSH-2.0-OpenSSH_9.2\r\n");
    let reason = pair.disconnect_reason();
    assert!(matches!(reason, DisconnectReason::Protocol(ProtocolError::Frame(_))), "{reason}");
    pair.client.handle_bytes(pair.time(), &[0; 64]);
    assert_eq!(pair.events(), [], "a connection given up is not listened to");
}

#[test]
fn an_answer_before_the_handshake_was_sent_is_refused() {
    let mut pair = Pair::new();
    pair.client.handle_connected(pair.time());
    pair.grant(6_000, SESSION_ID);
    assert_eq!(pair.disconnect_reason(), DisconnectReason::Protocol(ProtocolError::UnaskedHandshake));
}

#[test]
fn credentials_go_out_before_anything_else_on_each_connection() {
    let mut pair = Pair::new();
    let auth = |name: &'static str| Auth { scheme: "digest".into(), credentials: Bytes::from(name) };
    let first = pair.client.add_auth(auth("a:1")).unwrap();
    pair.submit(exists("/early"));
    pair.go_online();
    let second = pair.client.add_auth(auth("b:2")).unwrap();
    pair.submit(exists("/late"));
    let arrived: Vec<_> = pair.arrivals().into_iter().map(|(header, _)| header.xid).collect();
    assert_eq!(arrived, [XID_AUTH, XID_AUTH, 1, 2]);
    pair.answer(XID_AUTH, &ZkResponse::Done);
    pair.answer(XID_AUTH, &ZkResponse::Done);
    let told: Vec<_> = pair.outcomes();
    assert_eq!(told, [(first, Ok(ZkResponse::Done)), (second, Ok(ZkResponse::Done))]);

    pair.reconnect();
    let (arrived, _): (Vec<_>, Vec<_>) = pair.arrivals().into_iter().map(|(_, request)| (request, ())).unzip();
    assert_eq!(arrived, [ZkRequest::Auth(auth("a:1")), ZkRequest::Auth(auth("b:2"))]);
    pair.answer(XID_AUTH, &ZkResponse::Done);
    assert_eq!(pair.events(), [], "told the first time alone");
}

#[test]
fn credentials_lost_with_a_connection_are_told_of_on_the_next() {
    let mut pair = Pair::online();
    let id = pair.client.add_auth(Auth { scheme: "digest".into(), credentials: Bytes::from("a:1") }).unwrap();
    pair.pump();
    assert_eq!(replies(pair.hang_up()), []);
    pair.go_online();
    pair.pump();
    pair.answer(XID_AUTH, &ZkResponse::Done);
    assert_eq!(replies(pair.events())[0].id, id);
}

#[test]
fn refused_credentials_end_the_session() {
    let mut pair = Pair::online();
    let id = pair.client.add_auth(Auth { scheme: "none".into(), credentials: Bytes::new() }).unwrap();
    pair.pump();
    pair.refuse(XID_AUTH, ErrorCode::AuthFailed);
    let events = pair.events();
    assert_eq!(events[0], SessionEvent::Over(SessionLoss::AuthFailed));
    assert_eq!(replies(events)[0].id, id);
}

#[test]
fn a_session_carries_a_bounded_number_of_credentials() {
    let mut pair = Pair::new();
    let auth = Auth { scheme: "digest".into(), credentials: Bytes::from_static(b"a:1") };
    for _ in 0..AUTHS_MAX {
        pair.client.add_auth(auth.clone()).unwrap();
    }
    assert_eq!(pair.client.add_auth(auth), Err(SubmitError::TooMany));
}

#[test]
fn a_stall_is_forgotten_when_the_session_was_proved_after_it() {
    let mut pair = Pair::online();
    pair.now += TIMEOUT_MS / 2;
    for xid in 1..=5 {
        pair.send(create("/a"));
        pair.refuse(xid, ErrorCode::NodeExists);
        pair.events();
        pair.now += 1_100;
    }
    assert!(!pair.client.renew(pair.time()), "it was proved by a write half a tick later");
    pair.now += TIMEOUT_MS / 2;
    pair.send(create("/a"));
    assert!(pair.client.renew(pair.time()), "it has stood still again");
}
