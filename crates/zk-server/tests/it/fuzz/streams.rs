//! The bytes of a connection from its first one on: a handshake or a word, then frames; cut anywhere.

use bytes::Bytes;
use lockkeeper_zk_proto::frame::{Deframer, FrameError};
use proptest::prelude::*;

use super::mutation::{config, files, mutated};
use super::service::{FRAME_BYTES_MAX, Fate, Service};

const KIND: &str = "streams";

/// The frames up to the first that is refused, and why that is.
fn frames(pieces: &[&[u8]]) -> (Vec<Bytes>, Option<FrameError>) {
    let mut deframer = Deframer::new(FRAME_BYTES_MAX);
    let mut frames = Vec::new();
    for piece in pieces {
        deframer.push(piece);
        loop {
            match deframer.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

fn fate(pieces: &[&[u8]]) -> (Fate, i64) {
    let mut service = Service::new();
    pieces.iter().for_each(|piece| service.send_bad(piece));
    let zxid = service.zxid();
    (service.end(), zxid)
}

/// In any pieces, the same bytes have the same result, and no other client notices.
fn check(bytes: &[u8], piece_bytes: usize) {
    let pieces: Vec<_> = bytes.chunks(piece_bytes).collect();
    assert_eq!(frames(&[bytes]), frames(&pieces));
    assert_eq!(fate(&[bytes]), fate(&pieces));
}

#[test]
fn the_kept_streams_end_alike_however_they_are_cut() {
    for bytes in files(KIND) {
        [1, 3, 7, 64].into_iter().for_each(|piece_bytes| check(&bytes, piece_bytes));
    }
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn changed_streams_end_alike_however_they_are_cut(bytes in mutated(KIND), piece_bytes in 1..100_usize) {
        check(&bytes, piece_bytes);
    }
}
