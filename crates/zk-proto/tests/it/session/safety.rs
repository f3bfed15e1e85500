//! Tests of the anchor: which requests feed it, with which times.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::client::*;
use lockkeeper_zk_proto::message::*;
use lockkeeper_zk_proto::time::Timestamp;

use super::pair::*;

/// A pair with a tick of 2 s that has just been granted its session.
fn online() -> Pair {
    let anchor = AnchorConfig::new(Some(Duration::from_secs(2)));
    let mut pair = Pair::with(SessionConfig::new(Duration::from_millis(TIMEOUT_MS)).with_anchor(anchor));
    pair.go_online();
    pair
}

fn anchored_at(pair: &Pair) -> Option<u64> {
    pair.client.anchor().anchored_at().map(|at| at.as_nanos() / 1_000_000)
}

/// Sends a proof write now and has it answered 5 ms later.
fn prove(pair: &mut Pair, answer: Result<(), ErrorCode>) {
    pair.submit(proof_write());
    let (header, _) = pair.arrivals().pop().unwrap();
    pair.now += 5;
    match answer {
        Ok(()) => pair.answer(header.xid, &proved()),
        Err(error) => pair.refuse(header.xid, error),
    }
}

#[test]
fn a_request_counts_from_when_it_was_handed_out_and_not_from_when_it_was_submitted() {
    let mut pair = online();
    pair.submit(exists("/a"));
    pair.now = 2_000;
    pair.pump();
    pair.now = 2_050;
    pair.answer(1, &stat());
    pair.now = 2_050 + 1_100;
    prove(&mut pair, Ok(()));
    assert_eq!(anchored_at(&pair), Some(2_000));
}

#[test]
fn pings_count_once_they_are_answered() {
    let mut pair = online();
    pair.advance_to(5_000);
    pair.answer(XID_PING, &ZkResponse::Done);
    pair.now = 6_100;
    prove(&mut pair, Ok(()));
    assert_eq!(anchored_at(&pair), Some(2_200), "when the first of them was sent");
}

#[test]
fn a_write_that_failed_by_the_state_of_the_tree_proves_as_well_and_a_refusal_by_the_server_does_not() {
    for (error, proves) in [
        (ErrorCode::NoNode, true),
        (ErrorCode::NoAuth, true),
        (ErrorCode::NodeExists, true),
        (ErrorCode::BadVersion, true),
        (ErrorCode::ThrottledOp, false),
        (ErrorCode::NotReadOnly, false),
        (ErrorCode::EphemeralOnLocalSession, false),
        (ErrorCode::Unimplemented, false),
        (ErrorCode::MarshallingError, false),
    ] {
        let mut pair = online();
        prove(&mut pair, Err(error));
        assert_eq!(pair.client.safe_until().is_some(), proves, "{error}");
    }
}

#[test]
fn nothing_is_safe_any_more_once_we_close_the_session() {
    let mut pair = online();
    prove(&mut pair, Ok(()));
    assert!(pair.client.safe_until().is_some());
    pair.client.close();
    assert_eq!(pair.client.safe_until(), None);
}

#[test]
fn a_sync_is_not_a_write() {
    let mut pair = online();
    pair.send(ZkRequest::Sync { path: "/".into() });
    pair.answer(1, &ZkResponse::Sync { path: "/".into() });
    assert_eq!(pair.client.safe_until(), None);
}

#[test]
fn an_authentication_is_no_sign_of_life() {
    // A server answers it without touching the session.
    let mut pair = online();
    pair.now = 3_000;
    pair.client.add_auth(Auth { scheme: "digest".into(), credentials: Bytes::from_static(b"a:1") }).unwrap();
    pair.pump();
    pair.answer(XID_AUTH, &ZkResponse::Done);
    pair.now = 6_000;
    prove(&mut pair, Ok(()));
    assert_eq!(anchored_at(&pair), Some(1_000), "the handshake and nothing else");
}

#[test]
fn a_write_given_up_at_its_deadline_proves_when_its_answer_comes() {
    let mut pair = online();
    let deadline = pair.in_ms(10);
    pair.client.submit(&proof_write(), deadline).unwrap();
    pair.pump();
    pair.advance_to(1_020);
    assert_eq!(pair.client.safe_until(), None);
    pair.answer(1, &proved());
    assert!(pair.client.safe_until().is_some());
}

#[test]
fn what_was_proved_outlives_the_connection_and_nothing_outlives_the_session() {
    let mut pair = online();
    prove(&mut pair, Ok(()));
    let safe_until = pair.client.safe_until();
    pair.hang_up();
    assert_eq!(pair.client.safe_until(), safe_until);
    pair.now = 5_000;
    pair.dial();
    pair.grant(TIMEOUT_MS / 2, SESSION_ID);
    let shorter = Timestamp::from_millis(1_000 + TIMEOUT_MS / 2 - 220);
    assert_eq!(pair.client.safe_until(), Some(shorter), "a shorter timeout counts at once");
    pair.now += 1;
    prove(&mut pair, Ok(()));
    assert_eq!(anchored_at(&pair), Some(5_000), "the new handshake");
    pair.hang_up();
    pair.dial();
    pair.grant(0, 0);
    assert_eq!(pair.client.safe_until(), None);
}
