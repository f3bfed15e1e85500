//! ZooKeeper's protocol, as far as the proxy needs it: where a frame ends, the few numbers at its start, which reply
//! answers which request, and which replies are to be lost.
//!
//! Written anew instead of taken from the client's codec: a proxy that shared it would share its mistakes.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::record::{Armed, Direction, Operation, Protocol, Shared};

/// The server's number for an event that no request asked for.
const NOTIFICATION_XID: i32 = -1;

/// Where the numbers stand: a request is `xid, code, …`, a reply `xid, zxid (two), error, …`.
const XID: usize = 0;
const REQUEST_CODE: usize = 1;
const REPLY_ERROR: usize = 3;

/// The requests of one connection that have no reply yet.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    asked_to_connect: bool,
    connected: bool,
    /// By the client's number; more than one where the number is fixed, as for pings.
    open: HashMap<i32, VecDeque<Request>>,
}

#[derive(Debug)]
struct Request {
    operation: Operation,
    armed: Option<Armed>,
}

/// What a frame is.
#[derive(Debug)]
pub(super) struct Meaning {
    pub(super) operation: Operation,
    pub(super) xid: Option<i32>,
    pub(super) error: Option<i32>,
    /// Set if it is to be lost.
    pub(super) lost: Option<Armed>,
}

impl Meaning {
    fn of(operation: Operation) -> Self {
        Self { operation, xid: None, error: None, lost: None }
    }
}

impl Protocol {
    /// How long the first frame is among the bytes that have come from one side.
    pub(super) fn length(self, bytes: &[u8]) -> Length {
        if self == Self::ZooKeeper { length(bytes) } else { Length::None }
    }
}

impl Conversation {
    pub(super) fn meaning(&mut self, direction: Direction, frame: &[u8], shared: &Shared) -> Meaning {
        match direction {
            Direction::ToServer => self.request(frame, shared),
            Direction::ToClient => self.reply(frame, shared),
        }
    }

    /// Takes in a frame from the client.
    fn request(&mut self, frame: &[u8], shared: &Shared) -> Meaning {
        if !std::mem::replace(&mut self.asked_to_connect, true) {
            return Meaning::of(Operation::CONNECT);
        }
        let xid = number(frame, XID);
        let operation = number(frame, REQUEST_CODE).map_or(Operation::UNMATCHED, Operation);
        if let Some(xid) = xid {
            let armed = shared.take_armed(operation);
            self.open.entry(xid).or_default().push_back(Request { operation, armed });
        }
        Meaning { xid, ..Meaning::of(operation) }
    }

    /// Takes in a frame from the server.
    fn reply(&mut self, frame: &[u8], shared: &Shared) -> Meaning {
        if !std::mem::replace(&mut self.connected, true) {
            return Meaning::of(Operation::CONNECT);
        }
        let xid = number(frame, XID);
        let error = number(frame, REPLY_ERROR);
        if xid == Some(NOTIFICATION_XID) {
            return Meaning { xid, ..Meaning::of(Operation::NOTIFICATION) };
        }
        let request = xid.and_then(|xid| self.take(xid));
        let Some(Request { operation, armed }) = request else {
            return Meaning { xid, ..Meaning::of(Operation::UNMATCHED) };
        };
        let lost = match armed {
            Some(armed) if error != Some(0) => {
                shared.rearm(armed);
                None
            }
            armed => armed,
        };
        Meaning { xid, error, lost, ..Meaning::of(operation) }
    }

    /// Takes the oldest open request of a number.
    fn take(&mut self, xid: i32) -> Option<Request> {
        let Entry::Occupied(mut queue) = self.open.entry(xid) else {
            return None;
        };
        let request = queue.get_mut().pop_front();
        // Most numbers are used once: empty queues would pile up.
        if queue.get().is_empty() {
            queue.remove();
        }
        request
    }
}

/// The longest frame taken for one. ZooKeeper's own limit is 1 MiB, and servers under test may have it raised; MySQL's
/// are hardly longer.
const FRAME_BYTES_MAX: usize = 16 << 20;

const LENGTH_BYTES: usize = 4;

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
fn length(bytes: &[u8]) -> Length {
    let Some(length) = bytes.first_chunk().map(|bytes| i32::from_be_bytes(*bytes)) else {
        return Length::Unknown;
    };
    usize::try_from(length).map_or(Length::None, |length| Length::Frame(LENGTH_BYTES + length))
}

/// The number at `index` of a frame's body, counted in fours; none when the frame ends before.
fn number(frame: &[u8], index: usize) -> Option<i32> {
    let start = LENGTH_BYTES + 4 * index;
    let bytes = frame.get(start..)?.first_chunk()?;
    Some(i32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::record::{AfterDrop, FrameRecord};
    use super::*;

    fn frame(numbers: &[i32]) -> Vec<u8> {
        let length = i32::try_from(numbers.len() * 4).expect("short");
        [&[length], numbers].concat().iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    fn arm(shared: &Shared) -> oneshot::Receiver<FrameRecord> {
        shared.arm(Operation::DELETE, AfterDrop::Close)
    }

    fn connected() -> (Conversation, Shared) {
        let shared = Shared::new(([127, 0, 0, 1], 1).into(), Protocol::ZooKeeper);
        let mut conversation = Conversation::default();
        assert_eq!(conversation.request(&frame(&[0, 0]), &shared).operation, Operation::CONNECT);
        assert_eq!(conversation.reply(&frame(&[0, 0]), &shared).operation, Operation::CONNECT);
        (conversation, shared)
    }

    #[test]
    fn only_a_reply_that_reports_success_is_lost_and_only_once() {
        let (mut conversation, shared) = connected();
        let _dropped = arm(&shared);
        let mut lost = Vec::new();
        for (xid, error) in [(1, -101), (2, 0), (3, 0)] {
            conversation.request(&frame(&[xid, Operation::DELETE.0]), &shared);
            lost.push(conversation.reply(&frame(&[xid, 0, 0, error]), &shared).lost.is_some());
        }
        assert_eq!(lost, [false, true, false]);
    }

    #[test]
    fn a_loss_that_is_no_longer_waited_for_does_not_happen() {
        let (mut conversation, shared) = connected();
        drop(arm(&shared));
        conversation.request(&frame(&[1, Operation::DELETE.0]), &shared);
        assert!(conversation.reply(&frame(&[1, 0, 0, 0]), &shared).lost.is_none());
    }

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
    fn a_frame_cut_short_is_what_is_left() {
        let mut splitter = Splitter::default();
        splitter.add(&[0, 0, 0, 9, 1]);
        assert_eq!(splitter.next(length), None);
        assert_eq!(splitter.rest(), [0, 0, 0, 9, 1]);
        assert_eq!(number(&[0, 0, 0, 4, 0, 0, 0, 5], 0), Some(5));
        assert_eq!(number(&[0, 0, 0, 4, 0, 0, 0, 5], 1), None);
    }
}
