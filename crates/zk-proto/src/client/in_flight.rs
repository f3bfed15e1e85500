//! Requests that were sent on the present connection and not answered yet, and how long their answers will be.
//!
//! A server answers in order, but for authentications, which it handles as it reads them. Pings and authentications
//! share one xid each, so each has a separate line.

use std::collections::{BTreeMap, VecDeque};

use bytes::BytesMut;

use crate::client::config::{IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX};
use crate::client::event::{ProtocolError, RequestId};
use crate::client::outbox::{Aside, Open, SendTurn, parent_of};
use crate::message::{OpCode, XID_AUTH, XID_PING};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug)]
pub(super) struct SentRequest {
    pub(super) xid: i32,
    pub(super) sent_at: Timestamp,
    pub(super) opcode: OpCode,
    /// The request, of several that are sent together the creation; `None` when the machine restores watches.
    pub(super) id: Option<RequestId>,
    /// How many bytes it and its answer count for, as was foreseen.
    pub(super) bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SentAuth {
    pub(super) sent_at: Timestamp,
    /// Which of the session's credentials it carries.
    pub(super) index: usize,
}

#[derive(Debug, Default)]
pub(super) struct InFlight {
    line: VecDeque<SentRequest>,
    /// How many bytes the line counts for.
    bytes: usize,
    /// The records of its requests; without one that was given up, whose place stays for its reply.
    pub(super) open: BTreeMap<RequestId, Open>,
    /// The transactions of several requests, by xid.
    pub(super) together: BTreeMap<i32, Together>,
    pub(super) pings: VecDeque<Timestamp>,
    pub(super) auths: VecDeque<SentAuth>,
}

impl InFlight {
    pub(super) fn push(&mut self, sent: SentRequest, open: Option<Open>) {
        self.line.push_back(sent);
        self.bytes += sent.bytes;
        if let (Some(id), Some(open)) = (sent.id, open) {
            self.open.insert(id, open);
        }
    }

    /// Whether a creation below this node was sent with deletions, and may have to be sent again.
    pub(super) fn makes_along(&self, node: &str) -> bool {
        self.together.values().any(|together| together.makes_below() == Some(node))
    }

    /// Takes the request that a reply with `xid` answers, and its record; there is none any more of one
    /// that was given up at its deadline.
    pub(super) fn pop(&mut self, xid: i32) -> Result<(SentRequest, Option<Open>), ProtocolError> {
        let expected = self.line.front().map(|sent| sent.xid);
        if expected != Some(xid) {
            return Err(ProtocolError::OutOfOrder { expected, found: xid });
        }
        let sent = self.line.pop_front().ok_or(ProtocolError::OutOfOrder { expected, found: xid })?;
        self.bytes -= sent.bytes;
        Ok((sent, sent.id.and_then(|id| self.open.remove(&id))))
    }

    pub(super) fn pop_ping(&mut self) -> Result<Timestamp, ProtocolError> {
        self.pings.pop_front().ok_or(ProtocolError::OutOfOrder { expected: None, found: XID_PING })
    }

    pub(super) fn pop_auth(&mut self) -> Result<SentAuth, ProtocolError> {
        self.auths.pop_front().ok_or(ProtocolError::OutOfOrder { expected: None, found: XID_AUTH })
    }

    /// Notes that the lists that are due show this node's children as they were before requests that had no effect yet.
    pub(super) fn outdate_lists(&mut self, node: &str) {
        for open in self.open.values_mut() {
            // One that sets a watch is followed by the event of the deletion.
            let is_plain = matches!(open.aside, Aside::Nothing);
            open.is_outdated |= is_plain && open.lists.as_deref() == Some(node);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    /// Whether a request that counts for `bytes`, its answer included, may be sent before more is answered.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        let is_within = self.bytes.saturating_add(bytes) <= IN_FLIGHT_BYTES_MAX;
        self.line.len() < IN_FLIGHT_MAX && (is_within || self.line.is_empty())
    }

    /// When the oldest unanswered request was sent.
    pub(super) fn oldest_sent_at(&self) -> Option<Timestamp> {
        let line = self.line.front().map(|sent| sent.sent_at);
        let auth = self.auths.front().map(|auth| auth.sent_at);
        [line, self.pings.front().copied(), auth].into_iter().flatten().min()
    }

    /// Empties all lines; returns the requests whose callers wait, in the order of sending.
    pub(super) fn take(&mut self) -> Vec<(RequestId, Open)> {
        self.line.clear();
        self.bytes = 0;
        self.pings.clear();
        self.auths.clear();
        let together = std::mem::take(&mut self.together).into_values().flat_map(|together| together.deletions);
        let mut all: BTreeMap<_, _> = together.map(|deletion| (deletion.id, deletion.open)).collect();
        all.append(&mut self.open);
        all.into_iter().collect()
    }
}

/// A transaction of several requests: its operations in this order.
#[derive(Debug)]
pub(super) struct Together {
    pub(super) deletions: Vec<Deletion>,
    pub(super) creation: Option<Creation>,
}

impl Together {
    /// Returns the node below which the creation makes one, if there is a creation.
    pub(super) fn makes_below(&self) -> Option<&str> {
        self.creation.as_ref().map(|creation| parent_of(&creation.path))
    }
}

#[derive(Debug)]
pub(super) struct Deletion {
    pub(super) id: RequestId,
    pub(super) path: Box<str>,
    pub(super) open: Open,
}

/// A creation that was sent with deletions. The record of its caller is kept as for a request that is sent alone.
#[derive(Debug)]
pub(super) struct Creation {
    pub(super) id: RequestId,
    pub(super) path: Box<str>,
    pub(super) frame: BytesMut,
    /// Where it stood in the queue.
    pub(super) turn: SendTurn,
}

/// How many nodes are remembered; at this number all are forgotten, and count as unknown.
const NODES_MAX: usize = 1_024;

/// What the answer to a list of unknown length counts for, in bytes: [`IN_FLIGHT_MAX`] such
/// lists make up [`IN_FLIGHT_BYTES_MAX`], and each is as long as the names of two hundred
/// contenders.
const UNKNOWN_BYTES: usize = 16 * 1024;

/// What any other answer counts for, in bytes: most are shorter.
const OTHER_BYTES: usize = 512;

#[derive(Debug, Default)]
pub(super) struct ListLengths {
    nodes: BTreeMap<Box<str>, usize>,
}

impl ListLengths {
    /// Estimates how many bytes the answer to a request takes; `lists` is the node whose children it lists, if it does.
    pub(super) fn foresee(&self, lists: Option<&str>) -> usize {
        match lists {
            Some(node) => self.nodes.get(node).copied().unwrap_or(UNKNOWN_BYTES),
            None => OTHER_BYTES,
        }
    }

    pub(super) fn note(&mut self, node: Box<str>, bytes: usize) {
        if self.nodes.len() >= NODES_MAX && !self.nodes.contains_key(&node) {
            self.nodes.clear();
        }
        self.nodes.insert(node, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_remembered_nodes_has_a_maximum() {
        let mut lengths = ListLengths::default();
        for node in 0..3 * NODES_MAX {
            lengths.note(node.to_string().into(), 1);
        }
        assert!(lengths.nodes.len() <= NODES_MAX);
    }
}
