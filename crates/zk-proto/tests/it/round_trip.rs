//! Every message is decoded to what was encoded, in both directions.

use bytes::{Bytes, BytesMut};
use lockkeeper_zk_proto::frame::{Deframer, FRAME_BYTES_DEFAULT_MAX as MAX};
use lockkeeper_zk_proto::jute::Reader;
use lockkeeper_zk_proto::message::*;

use crate::samples;

/// Takes the one frame out of what was encoded, and checks that nothing is left.
pub(crate) fn body(frame: &BytesMut) -> Bytes {
    let mut deframer = Deframer::new(MAX);
    deframer.push(frame);
    let body = deframer.next_frame().unwrap().expect("a whole frame");
    assert_eq!(body.len() + 4, frame.len(), "one frame and no more");
    body
}

#[test]
fn a_request_survives_encoding() {
    for (xid, request) in (-2..).zip(samples::requests()) {
        let (header, decoded) = decode_request(body(&encode_request(xid, &request, MAX).unwrap())).unwrap();
        assert_eq!(header, RequestHeader { xid, code: request.opcode().code() });
        assert_eq!(decoded.unwrap(), request);
    }
}

#[test]
fn a_reply_survives_encoding() {
    for (opcode, response) in samples::responses() {
        let header = ReplyHeader { xid: i32::MIN, zxid: i64::MAX, error: ErrorCode::Ok };
        let mut reader = Reader::new(body(&encode_reply(header, Some(&response), MAX).unwrap()));
        assert_eq!(ReplyHeader::decode(&mut reader).unwrap(), header);
        assert_eq!(decode_reply_body(header, opcode, &mut reader).unwrap().unwrap(), response);
        assert_eq!(reader.left(), 0, "{response:?}");
    }
}

#[test]
fn an_error_reply_survives_encoding() {
    for error in [ErrorCode::NoNode, ErrorCode::ThrottledOp, ErrorCode::Other(i32::MIN)] {
        let header = ReplyHeader { xid: 1, zxid: -1, error };
        let mut reader = Reader::new(body(&encode_reply(header, None, MAX).unwrap()));
        assert_eq!(ReplyHeader::decode(&mut reader).unwrap(), header);
        assert_eq!(decode_reply_body(header, OpCode::GetData, &mut reader).unwrap(), Err(error));
    }
}

#[test]
fn an_event_survives_encoding() {
    for event in samples::events() {
        let mut reader = Reader::new(body(&encode_event(-1, &event, MAX).unwrap()));
        let header = ReplyHeader::decode(&mut reader).unwrap();
        assert_eq!(header, ReplyHeader { xid: XID_NOTIFICATION, zxid: -1, error: ErrorCode::Ok });
        assert_eq!(WatcherEvent::decode(&mut reader).unwrap(), event);
    }
}

#[test]
fn the_handshake_survives_encoding() {
    for (request, response) in samples::handshakes() {
        assert_eq!(ConnectRequest::decode(body(&request.to_frame(MAX).unwrap())).unwrap(), request);
        assert_eq!(ConnectResponse::decode(body(&response.to_frame(MAX).unwrap())).unwrap(), response);
    }
}

#[test]
fn a_message_beyond_the_maximum_is_refused_before_it_is_sent() {
    let data = Some(Bytes::from(vec![0; 64]));
    let request = ZkRequest::SetData { path: "/a".into(), data, version: -1 };
    let error = encode_request(1, &request, 64).unwrap_err();
    assert_eq!((error.length(), error.length_max()), (8 + 6 + 68 + 4, 64));
}
