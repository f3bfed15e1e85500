//! Bytes: cut anywhere, malformed, or words instead of frames. A bad connection ends alone.

use lockkeeper_zk_proto::message::{
    Auth, Create, CreateMode, ErrorCode, MultiReadOperation, OpCode, ZkRequest, ZkResponse, encode_request,
};

use super::service::*;
use crate::machine::{CloseReason, Input, MachineSettings, MemoryLimits};

#[test]
fn a_frame_of_a_wrong_length_ends_its_connection_alone() {
    let mut service = Service::with(MachineSettings { frame_bytes_max: 1_000, ..MachineSettings::default() });
    for length in [-1, 1_001, i32::MAX, i32::MIN] {
        let (bad, good) = (service.connect(), service.connect());
        service.bytes(bad.connection, &length.to_be_bytes());
        assert_eq!(service.closed(bad.connection), Some(CloseReason::FrameLength), "{length}");
        service.ask(&good, ZkRequest::Ping).unwrap();
        assert!(service.resume(&bad).is_some(), "the session lives on");
    }
}

#[test]
fn a_request_that_cannot_be_read_is_answered_as_apache_does() {
    let mut service = Service::new();
    let peer = service.connect();
    let mut code_of = |code: OpCode, body: &[u8]| {
        service.bytes(peer.connection, &raw(code.code(), body));
        let frame = service.frame(peer.connection).unwrap();
        i32::from_be_bytes(*frame[12..].first_chunk().unwrap())
    };
    assert_eq!(code_of(OpCode::GetData, &[0, 0]), ErrorCode::MarshallingError.code());
    assert_eq!(code_of(OpCode::Multi, &[1]), ErrorCode::MarshallingError.code());
    assert_eq!(code_of(OpCode::Reconfig, &[]), ErrorCode::ReconfigDisabled.code());
    let unknown_mode = [0, 0, 0, 2, b'/', b'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    assert_eq!(code_of(OpCode::Create, &unknown_mode), ErrorCode::BadArguments.code());
    service.ask(&peer, ZkRequest::Ping).unwrap();
}

#[test]
fn an_unknown_operation_is_answered_and_ends_the_connection() {
    let mut service = Service::new();
    let peer = service.connect();
    service.bytes(peer.connection, &raw(9_999, &[]));
    let frame = service.frame(peer.connection).unwrap();
    assert_eq!(frame[12..16], ErrorCode::Unimplemented.code().to_be_bytes());
    assert_eq!(service.closed(peer.connection), Some(CloseReason::Unimplemented));
}

#[test]
fn refused_credentials_end_the_connection() {
    let mut service = Service::new();
    let peer = service.connect();
    let auth = |scheme: &str| ZkRequest::Auth(Auth { scheme: scheme.into(), credentials: "me:secret".into() });
    assert_eq!(service.ask(&peer, auth("digest")), Ok(ZkResponse::Done));
    assert_eq!(service.ask(&peer, auth("kerberos")), Err(ErrorCode::AuthFailed));
    assert_eq!(service.closed(peer.connection), Some(CloseReason::AuthFailed));
}

#[test]
fn words_are_answered_and_the_connection_closed() {
    let mut service = Service::new();
    let peer = service.connect();
    service.ask(&peer, create_ephemeral("/mine")).unwrap();
    service.ask(&peer, exists("/mine", true)).unwrap();
    let session = format!("{:#x}", peer.session_id);
    for (word, parts) in [
        ("ruok", vec!["imok"]),
        ("isro", vec!["rw"]),
        ("srvr", vec!["Zookeeper version: 3.8.0", "Mode: standalone", "Node count: 6", "Received: "]),
        ("stat", vec!["Clients:", "127.0.0.1:40000", "Sent: "]),
        ("mntr", vec!["zk_znode_count\t6", "zk_watch_count\t1", "zk_ephemerals_count\t1"]),
        ("cons", vec![&*session, "recved=3,sent=3", "lop=EXIS"]),
        ("dump", vec!["Sessions with Ephemerals (1):", &*session, "\t/mine"]),
        ("wchs", vec!["1 connections watching 1 paths", "Total watches:1"]),
        ("wchp", vec!["/mine", &*session]),
        ("envi", vec!["zookeeper.version=3.8.0"]),
        ("conf", vec!["not in the whitelist"]),
    ] {
        let connection = service.accept();
        service.bytes(connection, &word.as_bytes()[..2]);
        service.bytes(connection, &word.as_bytes()[2..]);
        let text = service.text(connection);
        for part in parts {
            assert!(text.contains(part), "{word} says {part:?}: {text}");
        }
        assert_eq!(service.closed(connection), Some(CloseReason::Reported));
    }
    // Behind the handshake the same four bytes are a length, and no good one.
    service.bytes(peer.connection, b"ruok");
    assert_eq!(service.closed(peer.connection), Some(CloseReason::FrameLength));
}

#[test]
fn packets_are_counted_as_apache_counts_them() {
    let mut service = Service::new();
    let (peer, writer) = (service.connect(), service.connect());
    let before = service.machine.counters();
    service.ask(&peer, exists("/a", true)).unwrap_err();
    service.ask(&writer, create("/a")).unwrap();
    let after = service.machine.counters();
    assert_eq!(after.received - before.received, 2);
    assert_eq!(after.sent - before.sent, 3, "two answers and an event");
}

#[test]
fn reading_one_large_node_over_and_over_in_one_request_is_refused() {
    let mut service = Service::new();
    let peer = service.connect();
    let big = Create { data: Some(vec![0; 1 << 19].into()), ..node("/big", CreateMode::Persistent) };
    service.ask(&peer, ZkRequest::Create(big)).unwrap();
    let reads = |count| ZkRequest::MultiRead(vec![MultiReadOperation::GetData { path: "/big".into() }; count]);
    assert!(service.ask(&peer, reads(3)).is_ok());
    assert_eq!(service.ask(&peer, reads(20_000)), Err(ErrorCode::ThrottledOp));
}

#[test]
fn a_client_that_does_not_read_is_served_no_further_until_it_does() {
    let mut service = Service::new();
    let peer = service.connect();
    let big = Create { data: Some(vec![0; 1 << 19].into()), ..node("/big", CreateMode::Persistent) };
    service.ask(&peer, ZkRequest::Create(big)).unwrap();
    service.reads_at_once = false;
    let read = ZkRequest::GetData { path: "/big".into(), watch: false };
    let frame = encode_request(1, &read, FRAME_BYTES_MAX).unwrap();
    let answers = |service: &mut Service| std::iter::from_fn(|| service.frame(peer.connection)).count();
    // Many requests in one push, and more behind them: nothing more is served than one answer beyond a megabyte.
    service.bytes(peer.connection, &frame.repeat(100));
    service.bytes(peer.connection, &frame.repeat(4));
    assert_eq!(answers(&mut service), 2);
    let other = service.connect();
    service.ask(&other, exists("/", false)).unwrap();
    for _ in 0..51 {
        service.handle(Input::Read { connection: peer.connection });
        assert_eq!(answers(&mut service), 2);
    }
    service.handle(Input::Read { connection: peer.connection });
    assert_eq!((answers(&mut service), service.closed(peer.connection)), (0, None), "all are answered");
}

#[test]
fn requests_that_do_not_come_whole_end_the_connection_that_exceeds_the_memory_for_them() {
    let mut service =
        Service::with(MachineSettings { limits: MemoryLimits::of_memory(64 << 20), ..MachineSettings::default() });
    let half = [&(1_000_000_i32).to_be_bytes()[..], &[0; 700_000]].concat();
    let (mut kept, mut refused) = (Vec::new(), 0);
    for _ in 0..10 {
        let peer = service.connect();
        service.bytes(peer.connection, &half);
        match service.closed(peer.connection) {
            None => kept.push(peer),
            reason => {
                assert_eq!(reason, Some(CloseReason::RequestsFull));
                refused += 1;
            }
        }
    }
    assert_eq!((kept.len(), refused), (2, 8), "a share of 2 MiB");
    service.handle(Input::Closed { connection: kept[0].connection });
    let peer = service.connect();
    service.bytes(peer.connection, &half);
    assert_eq!(service.closed(peer.connection), None, "what an ended connection had is free again");
}
