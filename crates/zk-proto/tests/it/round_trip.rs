//! Every message is decoded to what was encoded, in both directions.

use bytes::{Bytes, BytesMut};
use lockkeeper_zk_proto::frame::{Deframer, FRAME_BYTES_DEFAULT_MAX};
use lockkeeper_zk_proto::jute::Reader;
use lockkeeper_zk_proto::message::*;
use proptest::prelude::*;

use crate::arbitrary;

/// Takes the one frame out of what was encoded, and checks that nothing is left.
pub(crate) fn body(frame: &BytesMut) -> Bytes {
    let mut deframer = Deframer::new(FRAME_BYTES_DEFAULT_MAX);
    deframer.push(frame);
    let body = deframer.next_frame().unwrap().expect("a whole frame");
    assert_eq!(body.len() + 4, frame.len(), "one frame and no more");
    body
}

proptest! {
    #[test]
    fn a_request_survives_encoding(xid in any::<i32>(), request in arbitrary::request()) {
        let frame = encode_request(xid, &request, FRAME_BYTES_DEFAULT_MAX).unwrap();
        let (header, decoded) = decode_request(body(&frame)).unwrap();
        prop_assert_eq!(header, RequestHeader { xid, code: request.opcode().code() });
        prop_assert_eq!(decoded.unwrap(), request);
    }

    #[test]
    fn a_reply_survives_encoding(xid in any::<i32>(), zxid in any::<i64>(), reply in arbitrary::response()) {
        let (opcode, response) = reply;
        let header = ReplyHeader { xid, zxid, error: ErrorCode::Ok };
        let frame = encode_reply(header, Some(&response), FRAME_BYTES_DEFAULT_MAX).unwrap();
        let mut reader = Reader::new(body(&frame));
        prop_assert_eq!(ReplyHeader::decode(&mut reader).unwrap(), header);
        prop_assert_eq!(decode_reply_body(header, opcode, &mut reader).unwrap().unwrap(), response);
        prop_assert_eq!(reader.left(), 0);
    }

    #[test]
    fn an_error_reply_survives_encoding(xid in any::<i32>(), zxid in any::<i64>(), error in arbitrary::error()) {
        let header = ReplyHeader { xid, zxid, error };
        let mut reader = Reader::new(body(&encode_reply(header, None, FRAME_BYTES_DEFAULT_MAX).unwrap()));
        prop_assert_eq!(ReplyHeader::decode(&mut reader).unwrap(), header);
        if error != ErrorCode::Ok {
            prop_assert_eq!(decode_reply_body(header, OpCode::GetData, &mut reader).unwrap(), Err(error));
        }
    }

    #[test]
    fn an_event_survives_encoding(zxid in any::<i64>(), event in arbitrary::event()) {
        let mut reader = Reader::new(body(&encode_event(zxid, &event, FRAME_BYTES_DEFAULT_MAX).unwrap()));
        let header = ReplyHeader::decode(&mut reader).unwrap();
        prop_assert_eq!(header, ReplyHeader { xid: XID_NOTIFICATION, zxid, error: ErrorCode::Ok });
        prop_assert_eq!(WatcherEvent::decode(&mut reader).unwrap(), event);
    }

    #[test]
    fn the_handshake_survives_encoding(
        request in arbitrary::connect_request(),
        response in arbitrary::connect_response(),
    ) {
        let frame = request.to_frame(FRAME_BYTES_DEFAULT_MAX).unwrap();
        prop_assert_eq!(ConnectRequest::decode(body(&frame)).unwrap(), request);
        let frame = response.to_frame(FRAME_BYTES_DEFAULT_MAX).unwrap();
        prop_assert_eq!(ConnectResponse::decode(body(&frame)).unwrap(), response);
    }
}

#[test]
fn a_message_beyond_the_maximum_is_refused_before_it_is_sent() {
    let data = Some(Bytes::from(vec![0; 64]));
    let request = Request::SetData { path: "/a".into(), data, version: -1 };
    let error = encode_request(1, &request, 64).unwrap_err();
    assert_eq!((error.length(), error.length_max()), (8 + 6 + 68 + 4, 64));
}
