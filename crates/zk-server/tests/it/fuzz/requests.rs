//! Single requests on a good session: header and body, without the length.

use bytes::Bytes;
use lockkeeper_zk_proto::message::{XID_PING, ZkRequest, decode_request, encode_request};
use proptest::prelude::*;

use super::mutation::{config, files, mutated};
use super::service::{FRAME_BYTES_MAX, Service};

const KIND: &str = "requests";
/// The xid in front, in bytes.
const XID_BYTES: usize = 4;

/// A request is read or refused; what is read is written as it was meant; it has one answer or ends its connection.
fn check(body: &[u8]) {
    let decoded = decode_request(Bytes::copy_from_slice(body));
    if let Ok((header, Ok(request))) = &decoded {
        let written = encode_request(header.xid, request, FRAME_BYTES_MAX).unwrap().freeze();
        let (again_header, again) = decode_request(written.slice(4..)).unwrap();
        assert_eq!((again_header.xid, again.unwrap()), (header.xid, request.clone()));
    }
    let mut service = Service::with_session();
    let length = i32::try_from(body.len()).unwrap();
    service.send_bad(&[&length.to_be_bytes(), body].concat());
    // An event is told from an answer by its xid, which a request may bear too.
    let looks_like_event = body.starts_with(&(-1_i32).to_be_bytes());
    let is_ping = matches!(decoded, Ok((_, Ok(ZkRequest::Ping))));
    let fate = service.end();
    match fate.answers.as_slice() {
        [] => assert!(fate.closed.is_some() || looks_like_event, "{fate:?} of {decoded:?}"),
        // Pings have the xid of pings, with any xid from the client.
        [answer] if is_ping => assert!(answer.starts_with(&XID_PING.to_be_bytes()), "{decoded:?}"),
        [answer] => assert_eq!(answer[..XID_BYTES], body[..XID_BYTES], "{decoded:?}"),
        more => panic!("{more:?} of {decoded:?}"),
    }
}

#[test]
fn the_kept_requests_have_one_answer_each() {
    files(KIND).iter().for_each(|body| check(body));
}

proptest! {
    #![proptest_config(config(3_000))]

    #[test]
    fn changed_requests_have_one_answer_or_end_their_connection(body in mutated(KIND)) {
        check(&body);
    }
}
