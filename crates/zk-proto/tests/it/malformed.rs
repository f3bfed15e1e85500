//! Bytes that are not a valid message: any of them gives an error, never a panic.

use bytes::Bytes;
use lockkeeper_zk_proto::frame::FRAME_BYTES_DEFAULT_MAX;
use lockkeeper_zk_proto::jute::{DecodeErrorKind, Reader};
use lockkeeper_zk_proto::message::*;

use crate::round_trip::body;
use crate::samples;

fn truncations(whole: &Bytes) -> impl Iterator<Item = Bytes> {
    (0..whole.len()).map(|length| whole.slice(..length))
}

#[test]
fn every_truncation_of_a_request_is_an_error_and_no_other_byte_makes_the_reader_panic() {
    for request in samples::requests() {
        let whole = body(&encode_request(1, &request, FRAME_BYTES_DEFAULT_MAX).unwrap());
        for part in truncations(&whole) {
            let length = part.len();
            assert!(!matches!(decode_request(part), Ok((_, Ok(_)))), "{length} bytes of {request:?}");
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.to_vec();
                bytes[at] = byte;
                let _ = decode_request(bytes.into());
            }
        }
    }
}

#[test]
fn every_truncation_of_a_reply_is_an_error() {
    for (opcode, response) in samples::responses() {
        let header = ReplyHeader { xid: 1, zxid: 2, error: ErrorCode::Ok };
        for part in truncations(&body(&encode_reply(header, Some(&response), FRAME_BYTES_DEFAULT_MAX).unwrap())) {
            let mut reader = Reader::new(part);
            let decoded =
                ReplyHeader::decode(&mut reader).and_then(|header| decode_reply_body(header, opcode, &mut reader));
            assert!(decoded.is_err(), "{response:?}");
        }
    }
}

#[test]
fn every_truncation_of_an_event_is_an_error() {
    for event in samples::events() {
        let whole = body(&encode_event(1, &event, FRAME_BYTES_DEFAULT_MAX).unwrap()).slice(16..);
        assert!(truncations(&whole).all(|part| WatcherEvent::decode(&mut Reader::new(part)).is_err()), "{event:?}");
    }
}

#[test]
fn every_truncation_of_a_handshake_is_an_error_but_that_of_the_flag() {
    for (request, response) in samples::handshakes() {
        let flag_bytes = usize::from(request.read_only != ReadOnlyFlag::Absent);
        let whole = body(&request.to_frame(FRAME_BYTES_DEFAULT_MAX).unwrap());
        let without_flag = |whole: Bytes| truncations(&whole).take(whole.len() - flag_bytes).collect::<Vec<_>>();
        assert!(without_flag(whole).into_iter().all(|part| ConnectRequest::decode(part).is_err()));
        let whole = body(&response.to_frame(FRAME_BYTES_DEFAULT_MAX).unwrap());
        assert!(without_flag(whole).into_iter().all(|part| ConnectResponse::decode(part).is_err()));
    }
}

fn kind_of(code: i32, bytes: &'static [u8]) -> DecodeErrorKind {
    ZkRequest::decode(code, &mut Reader::new(Bytes::from_static(bytes))).unwrap_err().kind()
}

#[test]
fn operations_no_client_may_ask_for_are_unknown() {
    for code in [0, 10, 13, 16, 20, 102, -10, -1, i32::MIN, i32::MAX] {
        assert_eq!(kind_of(code, &[0; 64]), DecodeErrorKind::UnknownOperation(code));
    }
}

#[test]
fn values_without_a_meaning_are_named() {
    // addWatch "" with the mode 7; create with the flags 9.
    assert_eq!(kind_of(106, &[0, 0, 0, 0, 0, 0, 0, 7]), DecodeErrorKind::UnknownValue(7));
    assert_eq!(kind_of(1, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]), DecodeErrorKind::UnknownValue(9));
    // A transaction that holds a getData; a read list that holds a delete.
    assert_eq!(kind_of(14, &[0, 0, 0, 4, 0, 0, 0, 0, 0]), DecodeErrorKind::UnknownOperation(4));
    assert_eq!(kind_of(22, &[0, 0, 0, 2, 0, 0, 0, 0, 0]), DecodeErrorKind::UnknownOperation(2));
}

#[test]
fn a_null_path_is_an_error() {
    assert_eq!(kind_of(3, &[0xff, 0xff, 0xff, 0xff, 0]), DecodeErrorKind::UnexpectedNull);
}
