//! Splitting a stream into frames; and ZooKeeper's, as far as the proxy needs it: where a frame ends, and the few
//! numbers at its start.
//!
//! Written anew instead of taken from the client's codec: a proxy that shared it would share its mistakes.
//! `conversation` matches replies to requests.

use std::fmt;

/// The longest frame taken for one. ZooKeeper's own limit is 1 MiB, and servers under test may have it raised; MySQL's
/// are hardly longer.
const FRAME_BYTES_MAX: usize = 16 << 20;

const LENGTH_BYTES: usize = 4;

/// What a frame asks, or answers: ZooKeeper's operation code, the type of a PostgreSQL message, or a MySQL command.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Operation(pub i32);

#[expect(missing_docs, reason = "named as in ZooKeeper's protocol, where they are described")]
impl Operation {
    /// The first frame of a connection, each way (ZooKeeper's `createSession`).
    pub const CONNECT: Self = Self(-10);
    /// An event that a watch announces.
    pub const NOTIFICATION: Self = Self(0);
    /// A reply whose request was not seen (ZooKeeper's `error`).
    pub const UNMATCHED: Self = Self(-1);
    pub const DELETE: Self = Self(2);
    pub const EXISTS: Self = Self(3);
    pub const GET_DATA: Self = Self(4);
    pub const SET_DATA: Self = Self(5);
    pub const GET_CHILDREN: Self = Self(8);
    pub const SYNC: Self = Self(9);
    pub const PING: Self = Self(11);
    pub const GET_CHILDREN2: Self = Self(12);
    pub const MULTI: Self = Self(14);
    pub const CREATE2: Self = Self(15);
}

/// Names for people, as the protocol has them.
const NAMES: &[(Operation, &str)] = &[
    (Operation::CONNECT, "connect"),
    (Operation::NOTIFICATION, "notification"),
    (Operation::UNMATCHED, "unmatched reply"),
    (Operation::DELETE, "delete"),
    (Operation::EXISTS, "exists"),
    (Operation::GET_DATA, "getData"),
    (Operation::SET_DATA, "setData"),
    (Operation::GET_CHILDREN, "getChildren"),
    (Operation::SYNC, "sync"),
    (Operation::PING, "ping"),
    (Operation::GET_CHILDREN2, "getChildren2"),
    (Operation::MULTI, "multi"),
    (Operation::CREATE2, "create2"),
];

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(operation, _)| operation == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "operation {}", self.0),
        }
    }
}

/// A piece of a stream.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Piece {
    /// One frame with its length field.
    Frame(Vec<u8>),
    /// Bytes of a stream that is not framed.
    Raw(Vec<u8>),
}

/// Splits one direction of a connection into pieces.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    pending: Vec<u8>,
    raw: bool,
}

/// What the bytes at the start of a stream say about its first frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Length {
    /// More bytes must come in to know.
    Unknown,
    /// Its length in bytes, with the field that tells it.
    Frame(usize),
    /// There is none: this stream is not framed.
    None,
}

impl Splitter {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole piece, if it has come in. A length that cannot be one makes the rest of the stream raw.
    pub(crate) fn next(&mut self, length: impl FnOnce(&[u8]) -> Length) -> Option<Piece> {
        if !self.raw {
            match length(&self.pending) {
                Length::Unknown => return None,
                Length::Frame(length) if length <= FRAME_BYTES_MAX => {
                    if self.pending.len() < length {
                        return None;
                    }
                    let rest = self.pending.split_off(length);
                    return Some(Piece::Frame(std::mem::replace(&mut self.pending, rest)));
                }
                Length::Frame(_) | Length::None => self.raw = true,
            }
        }
        Some(self.rest()).filter(|bytes| !bytes.is_empty()).map(Piece::Raw)
    }

    /// What is left when the stream has ended, possibly within a frame.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }
}

/// The length of ZooKeeper's first frame.
pub(super) fn length(bytes: &[u8]) -> Length {
    let Some(length) = bytes.first_chunk().map(|bytes| i32::from_be_bytes(*bytes)) else {
        return Length::Unknown;
    };
    usize::try_from(length).map_or(Length::None, |length| Length::Frame(LENGTH_BYTES + length))
}

/// The number at `index` of a frame's body, counted in fours; none when the frame ends before.
pub(super) fn number(frame: &[u8], index: usize) -> Option<i32> {
    let start = LENGTH_BYTES + 4 * index;
    let bytes = frame.get(start..)?.first_chunk()?;
    Some(i32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_the_bytes_arrive() {
        let stream = [0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0, 2, 8, 9];
        let frames = [vec![0, 0, 0, 1, 7], vec![0, 0, 0, 0], vec![0, 0, 0, 2, 8, 9]].map(Piece::Frame);
        for step in 1..=stream.len() {
            let mut splitter = Splitter::default();
            let mut found = Vec::new();
            for bytes in stream.chunks(step) {
                splitter.add(bytes);
                found.extend(std::iter::from_fn(|| splitter.next(length)));
            }
            assert_eq!(found, frames, "in steps of {step}");
        }
    }

    #[test]
    fn a_four_letter_word_is_passed_on_as_it_is() {
        let mut splitter = Splitter::default();
        splitter.add(b"ruok");
        assert_eq!(splitter.next(length), Some(Piece::Raw(b"ruok".to_vec())));
        splitter.add(b"\n");
        assert_eq!(splitter.next(length), Some(Piece::Raw(b"\n".to_vec())));
        assert_eq!(splitter.next(length), None);
    }

    #[test]
    fn a_frame_cut_short_is_what_is_left() {
        let mut splitter = Splitter::default();
        splitter.add(&[0, 0, 0, 9, 1]);
        assert_eq!(splitter.next(length), None);
        assert_eq!(splitter.rest(), [0, 0, 0, 9, 1]);
        assert_eq!(number(&[0, 0, 0, 4, 0, 0, 0, 5], 0), Some(5));
        assert_eq!(number(&[0, 0, 0, 4, 0, 0, 0, 5], 1), None);
    }
}
