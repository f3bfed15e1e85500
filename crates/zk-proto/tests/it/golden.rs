//! Frames byte by byte, worked out by hand from the protocol's definition (`zookeeper.jute`).

use bytes::Bytes;
use lockkeeper_zk_proto::frame::FRAME_BYTES_DEFAULT_MAX as MAX;
use lockkeeper_zk_proto::message::*;

use crate::round_trip::body;

/// Turns "00 01 …" into bytes; anything after `|` in a line is a remark.
fn hex(text: &str) -> Vec<u8> {
    text.lines()
        .filter_map(|line| line.split('|').next())
        .flat_map(str::split_whitespace)
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

#[test]
fn a_handshake_for_a_new_session() {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: 20_000,
        session_id: 0,
        password: Some(Bytes::from_static(&[0; 16])),
        read_only: ReadOnlyFlag::No,
    };
    let expected = hex("00 00 00 2d              | 45 bytes follow
        00 00 00 00                          | protocol version
        00 00 00 00 00 00 00 00              | last zxid seen
        00 00 4e 20                          | 20 s
        00 00 00 00 00 00 00 00              | no session yet
        00 00 00 10 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        00                                   | not read-only");
    assert_eq!(request.to_frame(MAX).unwrap(), expected);
    let old = hex("00 00 00 00  00 00 00 00 00 00 00 00  00 00 4e 20  00 00 00 00 00 00 00 00  ff ff ff ff");
    let old = ConnectRequest::decode(old.into()).unwrap();
    assert_eq!((old.timeout_ms, old.password, old.read_only), (20_000, None, ReadOnlyFlag::Absent));
}

#[test]
fn a_handshake_answered() {
    let bytes = hex("00 00 00 00
        00 00 17 70                          | 6 s
        01 00 00 00 00 00 00 2a              | the session
        00 00 00 02 aa bb
        00");
    let response = ConnectResponse::decode(bytes.clone().into()).unwrap();
    assert_eq!((response.timeout_ms, response.session_id), (6_000, 0x0100_0000_0000_002a));
    assert_eq!(response.password.as_deref(), Some(&[0xaa, 0xbb][..]));
    assert_eq!(body(&response.to_frame(MAX).unwrap()), bytes);
}

#[test]
fn a_ping_is_a_bare_header() {
    assert_eq!(encode_request(XID_PING, &ZkRequest::Ping, MAX).unwrap(), hex("00 00 00 08  ff ff ff fe  00 00 00 0b"));
}

#[test]
fn a_create_of_an_ephemeral_sequential_node() {
    let request = ZkRequest::Create2(Create {
        path: "/l/x-".into(),
        data: Some(Bytes::from_static(b"me")),
        acl: vec![Acl::open()],
        mode: CreateMode::EphemeralSequential,
    });
    let expected = hex("00 00 00 36
        00 00 00 07  00 00 00 0f             | xid 7, create2
        00 00 00 05  2f 6c 2f 78 2d          | /l/x-
        00 00 00 02  6d 65                   | me
        00 00 00 01                          | one entry
        00 00 00 1f                          | all permissions
        00 00 00 05  77 6f 72 6c 64          | world
        00 00 00 06  61 6e 79 6f 6e 65       | anyone
        00 00 00 03                          | ephemeral, sequential");
    assert_eq!(encode_request(7, &request, MAX).unwrap(), expected);
}

#[test]
fn a_proof_write() {
    let request = ZkRequest::Multi(vec![MultiOperation::Check { path: "/a".into(), version: -1 }]);
    let expected = hex("00 00 00 24
        00 00 00 01  00 00 00 0e             | xid 1, multi
        00 00 00 0d  00  ff ff ff ff         | check follows
        00 00 00 02  2f 61  ff ff ff ff      | /a, any version
        ff ff ff ff  01  ff ff ff ff         | done");
    assert_eq!(encode_request(1, &request, MAX).unwrap(), expected);
}

#[test]
fn a_failed_transaction_names_the_operation_to_blame() {
    let bytes = hex("00 00 00 01  00 00 00 00 00 00 00 09  00 00 00 00
        ff ff ff ff  00  00 00 00 00   00 00 00 00 | before
        ff ff ff ff  00  ff ff ff 9b   ff ff ff 9b | -101: to blame
        ff ff ff ff  00  ff ff ff fe   ff ff ff fe | -2: after
        ff ff ff ff  01  ff ff ff ff");
    let mut reader = lockkeeper_zk_proto::jute::Reader::new(bytes.clone().into());
    let header = ReplyHeader::decode(&mut reader).unwrap();
    assert_eq!(header, ReplyHeader { xid: 1, zxid: 9, error: ErrorCode::Ok });
    let response = decode_reply_body(header, OpCode::Multi, &mut reader).unwrap().unwrap();
    let errors = [ErrorCode::Ok, ErrorCode::NoNode, ErrorCode::RuntimeInconsistency].map(MultiResult::Error);
    assert_eq!(response, ZkResponse::Multi(errors.to_vec()));
    assert_eq!(body(&encode_reply(header, Some(&response), MAX).unwrap()), bytes);
}

#[test]
fn an_event_of_a_deleted_node() {
    let event = WatcherEvent::new(WatchEventKind::NodeDeleted, "/a");
    let expected = hex("00 00 00 1e
        ff ff ff ff  ff ff ff ff ff ff ff ff  00 00 00 00
        00 00 00 02  00 00 00 03  00 00 00 02  2f 61");
    assert_eq!(encode_event(-1, &event, MAX).unwrap(), expected);
}

#[test]
fn watches_without_persistent_ones_go_out_in_the_form_every_server_knows() {
    let mut watches = SetWatches { relative_zxid: 5, data: vec!["/a".into()], ..SetWatches::default() };
    let expected = hex("00 00 00 22
        ff ff ff f8  00 00 00 65             | setWatches
        00 00 00 00 00 00 00 05
        00 00 00 01  00 00 00 02 2f 61
        00 00 00 00  00 00 00 00");
    assert_eq!(encode_request(XID_SET_WATCHES, &ZkRequest::SetWatches(watches.clone()), MAX).unwrap(), expected);
    watches.persistent.push("/p".into());
    assert_eq!(ZkRequest::SetWatches(watches).opcode(), OpCode::SetWatches2);
}

#[test]
fn credentials_and_passwords_are_not_shown() {
    let auth = Auth { scheme: "digest".into(), credentials: Bytes::from_static(b"me:secret") };
    assert_eq!(format!("{auth:?}"), r#"Auth { scheme: "digest", .. }"#);
    let password = Some(Bytes::from_static(b"hush-hush"));
    let response =
        ConnectResponse { protocol_version: 0, timeout_ms: 1, session_id: 2, password, read_only: ReadOnlyFlag::No };
    assert!(!format!("{response:?}").contains("hush") && !format!("{response:?}").contains("104"));
}
