//! The match of ZooKeeper's replies and requests on one connection; and which replies are to be lost.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::frames::{self, Length, Operation};
use super::record::Direction;
use super::state::{Armed, Shared};
use super::talk::{Meaning, Talk};

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

impl Talk for Conversation {
    fn length(&self, _: Direction, bytes: &[u8]) -> Length {
        frames::length(bytes)
    }

    fn meaning(&mut self, direction: Direction, frame: &[u8], shared: &Shared) -> Meaning {
        match direction {
            Direction::ToServer => self.request(frame, shared),
            Direction::ToClient => self.reply(frame, shared),
        }
    }
}

impl Conversation {
    /// Takes in a frame from the client.
    fn request(&mut self, frame: &[u8], shared: &Shared) -> Meaning {
        if !std::mem::replace(&mut self.asked_to_connect, true) {
            return Meaning::of(Operation::CONNECT);
        }
        let xid = frames::number(frame, XID);
        let operation = frames::number(frame, REQUEST_CODE).map_or(Operation::UNMATCHED, Operation);
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
        let xid = frames::number(frame, XID);
        let error = frames::number(frame, REPLY_ERROR);
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

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::record::FrameRecord;
    use super::super::state::{AfterDrop, Protocol};
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
    fn replies_bear_the_operation_of_their_request() {
        let (mut conversation, shared) = connected();
        for (xid, operation) in [(1, Operation::CREATE2), (2, Operation::DELETE), (-2, Operation::PING)] {
            conversation.request(&frame(&[xid, operation.0]), &shared);
        }
        let reply = |conversation: &mut Conversation, xid, error| {
            let meaning = conversation.reply(&frame(&[xid, 0, 0, error]), &shared);
            (meaning.operation, meaning.error)
        };
        assert_eq!(reply(&mut conversation, 1, 0), (Operation::CREATE2, Some(0)));
        assert_eq!(reply(&mut conversation, -1, 0), (Operation::NOTIFICATION, None));
        assert_eq!(reply(&mut conversation, 2, -101), (Operation::DELETE, Some(-101)));
        assert_eq!(reply(&mut conversation, -2, 0), (Operation::PING, Some(0)));
        assert_eq!(reply(&mut conversation, 9, 0), (Operation::UNMATCHED, None));
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
}
