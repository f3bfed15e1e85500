//! Requests: order, loss of the connection, deadlines, limits, and replies that make no sense.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::client::*;
use lockkeeper_zk_proto::frame::FRAME_BYTES_DEFAULT_MAX as MAX;
use lockkeeper_zk_proto::message::*;

use super::pair::*;

#[test]
fn requests_go_out_in_the_order_of_submission_and_in_one_piece() {
    let mut pair = Pair::online();
    for path in ["/a", "/b", "/c"] {
        pair.submit(create(path));
    }
    assert_eq!(pair.pump().len(), 1);
    let arrived = pair.arrivals();
    let xids: Vec<_> = arrived.iter().map(|(header, _)| header.xid).collect();
    assert_eq!(xids, [1, 2, 3]);
    assert_eq!(arrived.into_iter().map(|(_, request)| request).collect::<Vec<_>>(), ["/a", "/b", "/c"].map(create));
}

#[test]
fn replies_and_events_are_told_in_the_order_in_which_they_came_with_their_connection() {
    let mut pair = Pair::online();
    let first = pair.submit(watch_data("/a"));
    let second = pair.send(exists("/b"));
    pair.answer(1, &data());
    pair.notify(WatchEventKind::NodeDeleted, "/a");
    pair.refuse(2, ErrorCode::NoNode);
    let epoch = pair.client.epoch();
    let event = WatcherEvent::new(WatchEventKind::NodeDeleted, "/a");
    assert_eq!(
        pair.events(),
        [
            SessionEvent::Reply(Reply { id: first, epoch, zxid: 101, watch: Some(first.watch()), outcome: Ok(data()) }),
            SessionEvent::Watch(WatchNotice { epoch, zxid: -1, event, fired: vec![first.watch()] }),
            SessionEvent::Reply(Reply {
                id: second,
                epoch,
                zxid: 102,
                watch: None,
                outcome: Err(RequestError::Refused(ErrorCode::NoNode)),
            }),
        ]
    );
}

#[test]
fn a_lost_connection_tells_apart_what_was_sent_and_what_was_not() {
    let mut pair = Pair::online();
    let write = pair.submit(create("/a"));
    let read = pair.send(exists("/a"));
    let unsent = pair.submit(create("/b"));
    let events = pair.hang_up();
    let why = WhyUnanswered::ConnectionLost;
    let lost: Vec<_> = replies(events).into_iter().map(|reply| (reply.id, reply.outcome)).collect();
    assert_eq!(
        lost,
        [
            (write, Err(RequestError::Unanswered { effect: RequestEffect::Write, why })),
            (read, Err(RequestError::Unanswered { effect: RequestEffect::Read, why })),
        ]
    );
    pair.go_online();
    let arrived = pair.arrivals();
    assert_eq!(arrived, [(RequestHeader { xid: 3, code: OpCode::Create2.code() }, create("/b"))], "sent once, alone");
    pair.answer(3, &ZkResponse::Create2 { path: "/b".into(), stat: Stat::default() });
    let told = replies(pair.events());
    assert_eq!((told[0].id, told[0].epoch.number()), (unsent, 2));
}

#[test]
fn nothing_goes_out_before_the_handshake_is_answered() {
    let mut pair = Pair::new();
    pair.submit(create("/a"));
    pair.dial();
    assert_eq!(pair.client.poll_transmit(pair.time()), None);
    pair.hang_up();
    assert_eq!(pair.client.queued(), 1);
}

#[test]
fn a_deadline_that_passes_in_the_queue_means_not_sent() {
    let mut pair = Pair::new();
    let deadline = pair.in_ms(500);
    pair.client.submit(&create("/a"), deadline).unwrap();
    assert_eq!(pair.client.poll_timeout(), deadline);
    pair.advance_to(1_499);
    assert_eq!(pair.events(), []);
    pair.advance_to(1_500);
    assert_eq!(pair.outcome(), Err(RequestError::NotSent(WhyUnsent::Deadline)));
    assert_eq!((pair.client.queued(), pair.client.poll_timeout()), (0, None));
}

#[test]
fn a_deadline_that_passes_after_sending_means_unknown_and_the_late_reply_keeps_its_place() {
    let mut pair = Pair::online();
    let deadline = pair.in_ms(500);
    pair.client.submit(&create("/a"), deadline).unwrap();
    let next = pair.send(exists("/b"));
    pair.advance_to(1_500);
    let why = WhyUnanswered::Deadline;
    assert_eq!(pair.outcome(), Err(RequestError::Unanswered { effect: RequestEffect::Write, why }));
    pair.answer(1, &ZkResponse::Create2 { path: "/a".into(), stat: Stat::default() });
    assert_eq!(pair.events(), [], "told once");
    pair.answer(2, &stat());
    assert_eq!(replies(pair.events())[0].id, next);
}

#[test]
fn a_request_can_be_taken_back_until_it_is_sent() {
    let mut pair = Pair::online();
    let deadline = pair.in_ms(5);
    let id = pair.client.submit(&watch_data("/a"), deadline).unwrap();
    assert!(pair.client.cancel(id));
    assert!(!pair.client.cancel(id));
    assert_eq!(pair.arrivals(), []);
    assert!(pair.client.watches().is_empty());
    let sent = pair.send(exists("/a"));
    assert!(!pair.client.cancel(sent));
}

#[test]
fn a_reply_out_of_order_ends_the_connection() {
    let mut pair = Pair::online();
    pair.submit(exists("/a"));
    pair.send(exists("/b"));
    pair.answer(2, &stat());
    let error = ProtocolError::OutOfOrder { expected: Some(1), found: 2 };
    let events = pair.events();
    let reason = DisconnectReason::Protocol(error);
    assert!(matches!(&events[0], SessionEvent::Disconnected { reason: found, .. } if *found == reason));
    assert_eq!(replies(events).len(), 2, "both are unanswered");
}

#[test]
fn a_reply_to_nothing_ends_the_connection() {
    for xid in [1, 7, XID_PING, XID_AUTH, XID_SET_WATCHES, -3, i32::MIN] {
        let mut pair = Pair::online();
        pair.answer(xid, &ZkResponse::Done);
        let error = ProtocolError::OutOfOrder { expected: None, found: xid };
        assert_eq!(pair.disconnect_reason(), DisconnectReason::Protocol(error));
    }
}

#[test]
fn a_reply_that_cannot_be_read_is_told_and_ends_the_connection() {
    let mut pair = Pair::online();
    pair.send(watch_data("/a"));
    pair.answer(1, &ZkResponse::Done);
    let events = pair.events();
    let SessionEvent::Reply(Reply { outcome: Err(RequestError::Malformed(error)), .. }) = &events[0] else {
        panic!("{events:?}");
    };
    assert_eq!(error.field(), "data");
    let reason = DisconnectReason::Protocol(ProtocolError::Message(error.clone()));
    assert!(matches!(&events[1], SessionEvent::Disconnected { reason: found, .. } if *found == reason), "{events:?}");
}

#[test]
fn a_request_beyond_the_maximum_is_refused_and_the_connection_stays() {
    let mut pair = Pair::online();
    let data = Some(Bytes::from(vec![0; MAX]));
    let request = ZkRequest::SetData { path: "/a".into(), data, version: -1 };
    assert!(matches!(pair.client.submit(&request, None), Err(SubmitError::TooLarge(_))));
    // A path that could be watched, but not set again after a reconnect.
    let path = format!("/{}", "x".repeat(MAX - 30));
    assert!(pair.client.submit(&ZkRequest::Exists { path: path.clone(), watch: false }, None).is_ok());
    let watched = pair.client.submit(&ZkRequest::Exists { path, watch: true }, None);
    assert!(matches!(watched, Err(SubmitError::TooLarge(_))));
    assert_eq!(pair.client.state(), SessionState::Online);
}

#[test]
fn the_queue_has_a_maximum_in_requests_and_in_bytes() {
    let mut pair = Pair::new();
    for _ in 0..QUEUED_REQUESTS_MAX {
        pair.submit(ZkRequest::WhoAmI);
    }
    assert_eq!(pair.client.submit(&ZkRequest::WhoAmI, None), Err(SubmitError::QueueFull));
    let mut pair = Pair::new();
    let data = Some(Bytes::from(vec![0; MAX - 100]));
    let large = ZkRequest::SetData { path: "/a".into(), data, version: -1 };
    let taken = (0..1_000).take_while(|_| pair.client.submit(&large, None).is_ok()).count();
    assert_eq!(taken, QUEUED_BYTES_MAX / (MAX - 100));
}

#[test]
fn requests_in_flight_have_a_maximum_but_pings_still_go_out() {
    let mut pair = Pair::online();
    for _ in 0..IN_FLIGHT_MAX + 5 {
        pair.submit(ZkRequest::WhoAmI);
    }
    assert_eq!(pair.arrivals().len(), IN_FLIGHT_MAX);
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (IN_FLIGHT_MAX, 5));
    pair.advance_to(2_200);
    assert_eq!(pair.arrivals(), [(RequestHeader { xid: XID_PING, code: 11 }, ZkRequest::Ping)]);
    pair.answer(1, &ZkResponse::WhoAmI(Vec::new()));
    assert_eq!(pair.arrivals().len(), 1, "one answered, one more sent");
}

#[test]
fn one_transmit_gathers_a_bounded_number_of_bytes() {
    let mut pair = Pair::online();
    let write = |bytes| ZkRequest::SetData { path: "/a".into(), data: Some(Bytes::from(vec![0; bytes])), version: -1 };
    pair.submit(write(10));
    pair.submit(write(3 * TRANSMIT_BYTES_MAX));
    for _ in 0..3 {
        pair.submit(write(TRANSMIT_BYTES_MAX / 2 - 100));
    }
    let pieces: Vec<_> = pair.pump().iter().map(|piece| piece.len() / (TRANSMIT_BYTES_MAX / 4)).collect();
    assert_eq!(pieces, [0, 12, 3, 1]);
    assert_eq!(pair.arrivals().len(), 5);
}

#[test]
fn requests_that_the_machine_sends_by_itself_are_not_taken() {
    let mut pair = Pair::online();
    let auth = Auth { scheme: String::new(), credentials: Bytes::new() };
    for request in
        [ZkRequest::Ping, ZkRequest::Auth(auth), ZkRequest::SetWatches(SetWatches::default()), ZkRequest::CloseSession]
    {
        assert_eq!(pair.client.submit(&request, None), Err(SubmitError::NotSubmittable));
    }
}

#[test]
fn a_server_that_has_lost_the_session_ends_the_connection_or_the_session() {
    let mut pair = Pair::online();
    pair.submit(create("/a"));
    pair.send(create("/b"));
    pair.refuse(1, ErrorCode::SessionMoved);
    let events = pair.events();
    let moved = Err(RequestError::Refused(ErrorCode::SessionMoved));
    assert!(matches!(&events[0], SessionEvent::Reply(reply) if reply.outcome == moved));
    assert!(matches!(&events[1], SessionEvent::Disconnected { reason: DisconnectReason::SessionMoved, .. }));

    for (error, loss) in [
        (ErrorCode::SessionExpired, SessionLoss::Expired),
        (ErrorCode::AuthFailed, SessionLoss::AuthFailed),
        (ErrorCode::SessionClosedRequireSaslAuth, SessionLoss::AuthFailed),
    ] {
        let mut pair = Pair::online();
        pair.send(create("/a"));
        pair.refuse(1, error);
        assert_eq!(pair.events()[1], SessionEvent::Over(loss));
    }
}

#[test]
fn a_small_frame_maximum_still_leaves_room_for_the_machine() {
    let config = SessionConfig::new(Duration::from_secs(12)).with_frame_bytes_max(0);
    let mut pair = Pair::with(config);
    pair.go_online();
    for n in 0..100 {
        pair.submit(watch_data(&format!("/some/path/number/{n}")));
        let (header, _) = pair.arrival();
        pair.answer(header.xid, &data());
    }
    pair.reconnect();
    let restored = pair.arrivals();
    assert!(restored.len() > 4 && restored.iter().all(|(header, _)| header.xid == XID_SET_WATCHES));
}
