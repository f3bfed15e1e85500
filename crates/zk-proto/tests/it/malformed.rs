//! Bytes that are not a valid message: any of them gives an error, never a panic.

use bytes::Bytes;
use lockkeeper_zk_proto::frame::{Deframer, FRAME_BYTES_DEFAULT_MAX};
use lockkeeper_zk_proto::jute::{DecodeErrorKind, Reader};
use lockkeeper_zk_proto::message::*;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::arbitrary;
use crate::round_trip::body;

proptest! {
    #[test]
    fn every_truncation_of_a_request_is_an_error(request in arbitrary::request()) {
        let whole = body(&encode_request(1, &request, FRAME_BYTES_DEFAULT_MAX).unwrap());
        for length in 0..whole.len() {
            let decoded = decode_request(whole.slice(..length));
            prop_assert!(!matches!(decoded, Ok((_, Ok(_)))), "{length} of {} bytes", whole.len());
        }
    }

    #[test]
    fn every_truncation_of_a_reply_is_an_error(reply in arbitrary::response()) {
        let (opcode, response) = reply;
        let header = ReplyHeader { xid: 1, zxid: 2, error: ErrorCode::Ok };
        let whole = body(&encode_reply(header, Some(&response), FRAME_BYTES_DEFAULT_MAX).unwrap());
        for length in 0..whole.len() {
            let mut reader = Reader::new(whole.slice(..length));
            let decoded = ReplyHeader::decode(&mut reader)
                .and_then(|header| decode_reply_body(header, opcode, &mut reader));
            prop_assert!(decoded.is_err(), "{length} of {} bytes", whole.len());
        }
    }

    #[test]
    fn every_truncation_of_an_event_is_an_error(event in arbitrary::event()) {
        let whole = body(&encode_event(1, &event, FRAME_BYTES_DEFAULT_MAX).unwrap()).slice(16..);
        for length in 0..whole.len() {
            prop_assert!(WatcherEvent::decode(&mut Reader::new(whole.slice(..length))).is_err());
        }
    }

    #[test]
    fn every_truncation_of_a_handshake_is_an_error_but_that_of_the_flag(
        request in arbitrary::connect_request(),
        response in arbitrary::connect_response(),
    ) {
        let flag_bytes = |flag| usize::from(flag != ReadOnlyFlag::Absent);
        let whole = body(&request.to_frame(FRAME_BYTES_DEFAULT_MAX).unwrap());
        for length in 0..whole.len() - flag_bytes(request.read_only) {
            prop_assert!(ConnectRequest::decode(whole.slice(..length)).is_err());
        }
        let whole = body(&response.to_frame(FRAME_BYTES_DEFAULT_MAX).unwrap());
        for length in 0..whole.len() - flag_bytes(response.read_only) {
            prop_assert!(ConnectResponse::decode(whole.slice(..length)).is_err());
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200), code in -12..120_i32) {
        let bytes = Bytes::from(bytes);
        let _ = decode_request(bytes.clone());
        let _ = Request::decode(code, &mut Reader::new(bytes.clone()));
        if let Some(opcode) = OpCode::from_code(code) {
            let _ = Response::decode(opcode, &mut Reader::new(bytes.clone()));
        }
        let _ = ConnectRequest::decode(bytes.clone());
        let _ = ConnectResponse::decode(bytes.clone());
        let _ = WatcherEvent::decode(&mut Reader::new(bytes.clone()));
        let mut deframer = Deframer::new(FRAME_BYTES_DEFAULT_MAX);
        deframer.push(&bytes);
        while let Ok(Some(_)) = deframer.next_frame() {}
    }

    #[test]
    fn a_flipped_byte_never_panics(
        request in arbitrary::request(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = body(&encode_request(1, &request, FRAME_BYTES_DEFAULT_MAX).unwrap()).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decode_request(bytes.into());
    }
}

fn kind_of(code: i32, bytes: &'static [u8]) -> DecodeErrorKind {
    Request::decode(code, &mut Reader::new(Bytes::from_static(bytes))).unwrap_err().kind()
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
