//! Sessions: how they begin, move, expire and end.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::message::{ConnectRequest, ReadOnlyFlag, WatchEventKind, ZkRequest, ZkResponse};

use super::service::*;
use crate::machine::{CloseReason, Input};

#[test]
fn a_session_expires_with_its_nodes_and_its_connection_and_not_before() {
    let mut service = Service::new();
    let (holder, waiter) = (service.connect(), service.connect());
    service.ask(&holder, create_ephemeral("/lock")).unwrap();
    service.ask(&waiter, exists("/lock", true)).unwrap();
    for _ in 0..4 {
        service.pass(Duration::from_millis(2_500));
        service.ask(&waiter, ZkRequest::Ping).unwrap();
    }
    assert_eq!(service.closed(holder.connection), None, "no session ends before its timeout");
    assert_eq!(service.events(&waiter), []);
    service.pass(Duration::from_secs(2));
    assert_eq!(service.closed(holder.connection), Some(CloseReason::SessionExpired));
    assert_eq!(service.events(&waiter), [(WatchEventKind::NodeDeleted, "/lock".into())]);
    assert!(service.resume(&holder).is_none());
}

#[test]
fn a_session_goes_on_on_another_connection_without_its_watches() {
    let mut service = Service::new();
    let (first, other) = (service.connect(), service.connect());
    service.ask(&first, create_ephemeral("/mine")).unwrap();
    service.ask(&first, exists("/mine", true)).unwrap();
    let second = service.resume(&first).unwrap();
    assert_eq!(service.closed(first.connection), Some(CloseReason::SessionMoved));
    assert_eq!((second.session_id, &second.password), (first.session_id, &first.password));
    service.ask(&other, delete("/mine")).unwrap();
    assert_eq!(service.events(&second), []);
    // The late event that the first connection is gone takes nothing from the second.
    service.handle(Input::Closed { connection: first.connection });
    service.handle(Input::Expire { session_id: second.session_id });
    assert_eq!(service.closed(second.connection), Some(CloseReason::SessionExpired));
}

#[test]
fn a_wrong_password_is_refused_and_harms_no_session() {
    let mut service = Service::new();
    let peer = service.connect();
    let (connection, response) = service.shake_hands(&ConnectRequest {
        session_id: peer.session_id,
        password: Some(Bytes::from_static(&[0; 16])),
        ..new_session()
    });
    let response = response.unwrap();
    assert_eq!((response.session_id, response.timeout_ms), (0, 0));
    assert_eq!(service.closed(connection), Some(CloseReason::SessionRefused));
    service.ask(&peer, ZkRequest::Ping).unwrap();
}

#[test]
fn a_closed_session_takes_its_nodes_along_before_it_is_answered() {
    let mut service = Service::new();
    let (first, other) = (service.connect(), service.connect());
    service.ask(&first, create_ephemeral("/b")).unwrap();
    service.ask(&first, create_ephemeral("/a")).unwrap();
    let (before, _) = service.ask_seen(&other, ZkRequest::Ping);
    let (header, answer) = service.ask_seen(&first, ZkRequest::CloseSession);
    assert_eq!(answer, Ok(ZkResponse::Done));
    assert_eq!(header.zxid, before.zxid + 1, "the nodes go in one transaction with the session");
    assert_eq!(service.closed(first.connection), Some(CloseReason::SessionClosed));
    assert!(!service.exists(&other, "/a") && !service.exists(&other, "/b"));
    assert!(service.resume(&first).is_none());
}

#[test]
fn a_client_that_has_seen_more_than_the_server_is_sent_away() {
    let mut service = Service::new();
    let (connection, response) =
        service.shake_hands(&ConnectRequest { last_zxid_seen: service.machine.zxid() + 1, ..new_session() });
    assert_eq!(response, None);
    assert_eq!(service.closed(connection), Some(CloseReason::ClientAhead));
}

#[test]
fn the_handshake_is_answered_in_the_form_in_which_it_came() {
    let mut service = Service::new();
    for (asked, answered) in [
        (ReadOnlyFlag::Absent, ReadOnlyFlag::Absent),
        (ReadOnlyFlag::No, ReadOnlyFlag::No),
        (ReadOnlyFlag::Yes, ReadOnlyFlag::No),
    ] {
        let (_, response) = service.shake_hands(&ConnectRequest { read_only: asked, ..new_session() });
        assert_eq!(response.unwrap().read_only, answered);
    }
}

#[test]
fn a_connection_without_a_handshake_is_closed_in_time() {
    let mut service = Service::new();
    let (silent, slow) = (service.accept(), service.accept());
    service.bytes(slow, &[0, 0, 0]);
    let peer = service.connect();
    service.pass(Duration::from_secs(9));
    service.ask(&peer, ZkRequest::Ping).unwrap();
    assert_eq!((service.closed(silent), service.closed(slow)), (None, None));
    service.pass(Duration::from_secs(2));
    assert_eq!(service.closed(silent), Some(CloseReason::HandshakeTimeout));
    assert_eq!(service.closed(slow), Some(CloseReason::HandshakeTimeout));
    assert_eq!(service.closed(peer.connection), None);
}

#[test]
fn a_restart_keeps_nodes_and_sessions_and_counts_on() {
    let mut service = Service::new();
    let peer = service.connect();
    service.ask(&peer, create_ephemeral("/mine")).unwrap();
    service.pass(Duration::from_secs(9));
    let (zxid, moment) = (service.machine.zxid(), service.moment);
    service.machine.restart(moment);
    assert!(service.machine.zxid() > zxid);
    // The timeout begins anew: clients could not reach the server meanwhile.
    service.pass(Duration::from_secs(9));
    let again = service.resume(&peer).unwrap();
    assert!(service.exists(&again, "/mine"));
    let other = service.connect();
    assert!(other.session_id > again.session_id);
}
