//! Ending a session.

use lockkeeper_zk_proto::client::*;
use lockkeeper_zk_proto::message::*;

use super::pair::*;

#[test]
fn closing_waits_for_what_was_submitted_and_takes_nothing_more() {
    let mut pair = Pair::online();
    pair.submit(ZkRequest::Delete { path: "/mine".into(), version: -1 });
    pair.client.close();
    pair.client.close();
    assert_eq!(pair.client.submit(&exists("/a"), None), Err(SubmitError::Closing));
    assert_eq!(pair.requests(), [ZkRequest::Delete { path: "/mine".into(), version: -1 }, ZkRequest::CloseSession]);
    pair.answer(1, &ZkResponse::Done);
    assert_eq!(pair.outcome(), Ok(ZkResponse::Done));
    pair.answer(2, &ZkResponse::Done);
    assert_eq!(pair.event(), SessionEvent::Over(SessionLoss::Closed));
    assert_eq!(pair.client.state(), SessionState::Over(SessionLoss::Closed));
    assert_eq!(pair.hang_up(), [], "the server closing the connection is no event");
}

#[test]
fn closing_goes_on_over_a_lost_connection() {
    let mut pair = Pair::online();
    pair.client.close();
    pair.pump();
    assert_eq!(pair.hang_up().len(), 1);
    pair.go_online();
    assert_eq!(pair.arrival().1, ZkRequest::CloseSession);
    pair.hang_up();
    // This time it took effect, and only the reply was lost.
    pair.dial();
    pair.grant(0, 0);
    assert_eq!(pair.event(), SessionEvent::Over(SessionLoss::Closed));
}

#[test]
fn closing_a_session_that_is_leaving_its_connection_goes_on_there() {
    let mut pair = Pair::online();
    pair.now += TIMEOUT_MS / 2;
    pair.send(create("/a"));
    assert!(pair.client.renew(pair.time()));
    pair.client.close();
    assert_eq!(pair.requests(), [create("/a"), ZkRequest::CloseSession]);
    pair.refuse(1, ErrorCode::NodeExists);
    pair.answer(2, &ZkResponse::Done);
    assert_eq!(pair.client.state(), SessionState::Over(SessionLoss::Closed));
}

#[test]
fn closing_without_a_session_is_done_at_once() {
    let mut pair = Pair::new();
    let id = pair.submit(create("/a"));
    pair.client.close();
    let events = pair.events();
    assert_eq!(events[0], SessionEvent::Over(SessionLoss::Closed));
    let told = replies(events);
    assert_eq!(told[0].id, id);
    assert_eq!(told[0].outcome, Err(RequestError::NotSent(WhyUnsent::Over(SessionLoss::Closed))));
}

#[test]
fn closing_during_the_first_handshake_closes_what_it_makes() {
    let mut pair = Pair::new();
    pair.dial();
    pair.client.close();
    assert_eq!(pair.client.state(), SessionState::Handshake);
    pair.grant(6_000, SESSION_ID);
    pair.events();
    assert_eq!(pair.arrival().1, ZkRequest::CloseSession);

    let mut pair = Pair::new();
    pair.dial();
    pair.client.close();
    assert_eq!(*pair.hang_up().last().unwrap(), SessionEvent::Over(SessionLoss::Closed));

    let mut pair = Pair::new();
    pair.dial();
    pair.client.close();
    assert_eq!(pair.try_dial(), None, "another connection has nothing to close");
    assert_eq!(pair.client.state(), SessionState::Over(SessionLoss::Closed));
}

#[test]
fn closing_that_the_server_refuses_is_tried_on_another_connection() {
    let mut pair = Pair::online();
    pair.client.close();
    pair.pump();
    pair.refuse(1, ErrorCode::ThrottledOp);
    assert_eq!(pair.client.state(), SessionState::Offline);
    pair.events();
    pair.go_online();
    assert_eq!(pair.arrival().1, ZkRequest::CloseSession);
}

/// The operations of frames that follow one another.
fn operations(mut bytes: &[u8]) -> Vec<i32> {
    let mut operations = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        operations.push(i32::from_be_bytes(frame[4..8].try_into().unwrap()));
        bytes = rest;
    }
    operations
}

#[test]
fn a_farewell_is_what_waits_and_the_end_of_the_session_however_much_is_unanswered() {
    let (delete, close) = (OpCode::Delete.code(), OpCode::CloseSession.code());
    let removal = || ZkRequest::Delete { path: "/mine".into(), version: -1 };
    let mut pair = Pair::online();
    for _ in 0..IN_FLIGHT_MAX + 5 {
        pair.submit(removal());
    }
    assert_eq!(pair.arrivals().len(), IN_FLIGHT_MAX);
    let farewell = pair.client.farewell(pair.time()).unwrap();
    assert_eq!(operations(&farewell), [delete, delete, delete, delete, delete, close]);
    assert_eq!(pair.client.submit(&removal(), None), Err(SubmitError::Closing));

    let mut pair = Pair::online();
    pair.client.close();
    assert_eq!(operations(&pair.client.farewell(pair.time()).unwrap()), [close], "once");
    assert_eq!(Pair::new().client.farewell(pair.time()), None, "there is nothing to take leave of");
}

#[test]
fn a_farewell_is_short_enough_for_a_socket_and_still_ends_the_session() {
    let mut pair = Pair::online();
    for _ in 0..50 {
        pair.submit(ZkRequest::SetData { path: "/a".into(), data: Some(vec![0; 10_000].into()), version: -1 });
    }
    let farewell = pair.client.farewell(pair.time()).unwrap();
    assert!(farewell.len() <= TRANSMIT_BYTES_MAX + 100, "{}", farewell.len());
    assert_eq!(operations(&farewell).last(), Some(&OpCode::CloseSession.code()));
}
