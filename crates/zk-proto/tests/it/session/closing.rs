//! Ending a session.

use lockkeeper_zk_proto::client::*;
use lockkeeper_zk_proto::message::*;

use super::pair::*;

#[test]
fn closing_waits_for_what_was_submitted_and_takes_nothing_more() {
    let mut pair = Pair::online();
    pair.submit(Request::Delete { path: "/mine".into(), version: -1 });
    pair.client.close();
    pair.client.close();
    assert_eq!(pair.client.submit(&exists("/a"), None), Err(SubmitError::Closing));
    let arrived: Vec<_> = pair.arrivals().into_iter().map(|(_, request)| request).collect();
    assert_eq!(arrived, [Request::Delete { path: "/mine".into(), version: -1 }, Request::CloseSession]);
    pair.answer(1, &Response::Done);
    assert_eq!(pair.outcome(), Ok(Response::Done));
    pair.answer(2, &Response::Done);
    assert_eq!(pair.event(), Event::Over(LossReason::Closed));
    assert_eq!(pair.client.state(), SessionState::Over(LossReason::Closed));
    assert_eq!(pair.hang_up(), [], "the server closing the connection is no news");
}

#[test]
fn closing_goes_on_over_a_lost_connection() {
    let mut pair = Pair::online();
    pair.client.close();
    pair.pump();
    assert_eq!(pair.hang_up().len(), 1);
    pair.go_online();
    assert_eq!(pair.arrival().1, Request::CloseSession);
    pair.hang_up();
    // This time it took effect, and only the reply was lost.
    pair.dial();
    pair.grant(0, 0);
    assert_eq!(pair.event(), Event::Over(LossReason::Closed));
}

#[test]
fn closing_without_a_session_is_done_at_once() {
    let mut pair = Pair::new();
    let id = pair.submit(create("/a"));
    pair.client.close();
    let events = pair.events();
    assert_eq!(events[0], Event::Over(LossReason::Closed));
    let told = replies(events);
    assert_eq!(told[0].id, id);
    assert_eq!(told[0].outcome, Err(RequestError::NotSent(WhyUnsent::Over(LossReason::Closed))));
}

#[test]
fn closing_during_the_first_handshake_closes_what_it_makes() {
    let mut pair = Pair::new();
    pair.dial();
    pair.client.close();
    assert_eq!(pair.client.state(), SessionState::Handshake);
    pair.grant(6_000, SESSION_ID);
    pair.events();
    assert_eq!(pair.arrival().1, Request::CloseSession);

    let mut pair = Pair::new();
    pair.dial();
    pair.client.close();
    assert_eq!(*pair.hang_up().last().unwrap(), Event::Over(LossReason::Closed));

    let mut pair = Pair::new();
    pair.dial();
    pair.client.close();
    assert_eq!(pair.try_dial(), None, "another connection has nothing to close");
    assert_eq!(pair.client.state(), SessionState::Over(LossReason::Closed));
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
    assert_eq!(pair.arrival().1, Request::CloseSession);
}
