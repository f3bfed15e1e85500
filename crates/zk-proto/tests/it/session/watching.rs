//! Watches over connections: set again, told apart, taken away.

use lockkeeper_zk_proto::client::*;
use lockkeeper_zk_proto::message::*;
use lockkeeper_zk_proto::watch::RESTORE_BYTES_MAX;

use super::pair::*;

fn watch(pair: &mut Pair, path: &str) -> RequestId {
    let id = pair.submit(watch_data(path));
    let (header, _) = pair.arrival();
    pair.answer(header.xid, &data());
    assert_eq!(replies(pair.events())[0].watch, Some(id.watch()));
    id
}

#[test]
fn watches_are_set_again_after_a_reconnect_and_before_any_request() {
    let mut pair = Pair::online();
    let id = watch(&mut pair, "/a");
    let absent = pair.send(ZkRequest::Exists { path: "/b".into(), watch: true });
    pair.refuse(2, ErrorCode::NoNode);
    assert_eq!(replies(pair.events())[0].watch, Some(absent.watch()), "set though there is no node");
    let seen = pair.client.last_zxid();
    let lost = pair.send(watch_data("/lost"));
    pair.notify(WatchEventKind::NodeCreated, "/unwatched");
    pair.hang_up();
    pair.submit(exists("/c"));
    let events = pair.go_online();
    assert!(!events.iter().any(|event| matches!(event, SessionEvent::WatchesRestored { .. })), "not yet");
    assert!(!pair.client.watches().is_set(lost.watch()), "it is not known whether it was set");
    let arrived = pair.arrivals();
    let expected =
        SetWatches { relative_zxid: seen, data: vec!["/a".into()], exist: vec!["/b".into()], ..SetWatches::default() };
    assert_eq!(arrived[0], (RequestHeader { xid: XID_SET_WATCHES, code: 101 }, ZkRequest::SetWatches(expected)));
    assert_eq!(arrived[1].1, exists("/c"));
    // The server tells what was missed, then answers.
    pair.notify(WatchEventKind::NodeDeleted, "/a");
    pair.answer(XID_SET_WATCHES, &ZkResponse::Done);
    let epoch = pair.client.epoch();
    let events = pair.events();
    assert!(matches!(&events[0], SessionEvent::Watch(notice) if notice.fired == [id.watch()] && notice.epoch == epoch));
    assert_eq!(events[1], SessionEvent::WatchesRestored { epoch });
}

#[test]
fn many_watches_are_restored_only_when_every_request_for_them_is_answered() {
    let mut pair = Pair::online();
    let count = 2 * RESTORE_BYTES_MAX / 100;
    for n in 0..count {
        watch(&mut pair, &format!("/{n:0>100}"));
    }
    pair.reconnect();
    let arrived = pair.arrivals();
    assert_eq!(arrived.len(), 3);
    for n in 0..3 {
        assert_eq!(pair.events(), [], "after {n} answers");
        pair.answer(XID_SET_WATCHES, &ZkResponse::Done);
    }
    assert_eq!(pair.event(), SessionEvent::WatchesRestored { epoch: pair.client.epoch() });
}

#[test]
fn a_server_that_will_not_set_watches_again_is_left() {
    let mut pair = Pair::online();
    watch(&mut pair, "/a");
    pair.reconnect();
    pair.pump();
    pair.refuse(XID_SET_WATCHES, ErrorCode::Unimplemented);
    let error = ProtocolError::WatchesRefused(ErrorCode::Unimplemented);
    assert_eq!(pair.disconnect_reason(), DisconnectReason::Protocol(error));
    assert_eq!(pair.client.watches().len(), 1, "still to be set");
}

#[test]
fn a_server_that_lets_us_in_no_more_ends_the_session_also_where_watches_are_set_again() {
    for code in [ErrorCode::AuthFailed, ErrorCode::SessionClosedRequireSaslAuth] {
        let mut pair = Pair::online();
        watch(&mut pair, "/a");
        pair.reconnect();
        pair.pump();
        pair.refuse(XID_SET_WATCHES, code);
        assert!(pair.events().contains(&SessionEvent::Over(SessionLoss::AuthFailed)), "{code}");
    }
}

#[test]
fn a_forgotten_watch_is_removed_at_the_server_without_a_reply_to_a_caller() {
    let mut pair = Pair::online();
    let id = watch(&mut pair, "/a");
    pair.client.unwatch(id.watch());
    let (header, request) = pair.arrival();
    assert_eq!(request, ZkRequest::RemoveWatches { path: "/a".into(), kind: WatcherKind::Data });
    pair.notify(WatchEventKind::DataWatchRemoved, "/a");
    pair.answer(header.xid, &ZkResponse::Done);
    assert_eq!(replies(pair.events()), []);

    // Offline there is nothing to remove, and a removal that was not sent goes with its connection.
    let id = watch(&mut pair, "/b");
    pair.client.unwatch(id.watch());
    pair.reconnect();
    assert_eq!(pair.arrivals(), []);
}

#[test]
fn a_watch_whose_request_was_given_up_is_forgotten() {
    let mut pair = Pair::online();
    let deadline = pair.in_ms(10);
    pair.client.submit(&watch_data("/a"), deadline).unwrap();
    pair.pump();
    pair.advance_to(1_010);
    assert_eq!(pair.events().len(), 1);
    assert!(pair.client.watches().is_empty());
    pair.answer(1, &data());
    pair.notify(WatchEventKind::NodeDeleted, "/a");
    assert!(matches!(pair.event(), SessionEvent::Watch(notice) if notice.fired.is_empty()));
}
