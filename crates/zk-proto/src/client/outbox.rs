//! Requests that have not been sent, in the order of submission.

use std::collections::BTreeMap;

use bytes::BytesMut;

use crate::client::config::{QUEUED_BYTES_MAX, QUEUED_REQUESTS_MAX};
use crate::client::event::RequestId;
use crate::message::{OpCode, WatcherKind};
use crate::time::Timestamp;

/// A request ready to go but for its xid.
#[derive(Debug)]
pub(super) struct Unsent {
    /// The whole frame, with an xid of 0.
    pub(super) frame: BytesMut,
    pub(super) opcode: OpCode,
    pub(super) deadline: Option<Timestamp>,
    pub(super) aside: Aside,
}

/// What a request means to the machine itself.
#[derive(Debug)]
pub(super) enum Aside {
    /// Nothing.
    Nothing,
    /// It asks for a watch, known in the registry by the request's id.
    Watch,
    /// It removes watches; nobody may be waiting for the answer.
    Removal { path: String, kind: WatcherKind, audience: Audience },
    /// It ends the session; nobody waits for the answer but the machine.
    Close,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Audience {
    /// Whoever submitted it.
    Caller,
    /// Nobody: the machine cleans up after a forgotten watch.
    Nobody,
}

impl Aside {
    /// Whether the caller is to be told how the request ended.
    pub(super) const fn is_told(&self) -> bool {
        !matches!(self, Self::Removal { audience: Audience::Nobody, .. } | Self::Close)
    }
}

/// A queue with a maximum, from which a request can be taken by its id.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Ids grow, so their order is the order of submission.
    requests: BTreeMap<RequestId, Unsent>,
    bytes: usize,
}

impl Outbox {
    /// Whether a frame of `bytes` more would be too much.
    pub(super) fn is_full_for(&self, bytes: usize) -> bool {
        self.requests.len() >= QUEUED_REQUESTS_MAX || self.bytes.saturating_add(bytes) > QUEUED_BYTES_MAX
    }

    pub(super) fn push(&mut self, id: RequestId, unsent: Unsent) {
        self.bytes += unsent.frame.len();
        self.requests.insert(id, unsent);
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Unsent> {
        let unsent = self.requests.remove(&id)?;
        self.bytes -= unsent.frame.len();
        Some(unsent)
    }

    pub(super) fn pop(&mut self) -> Option<(RequestId, Unsent)> {
        let (id, unsent) = self.requests.pop_first()?;
        self.bytes -= unsent.frame.len();
        Some((id, unsent))
    }

    /// The length of the next frame.
    pub(super) fn next_bytes(&self) -> Option<usize> {
        self.requests.first_key_value().map(|(_, unsent)| unsent.frame.len())
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Drops what makes sense on the present connection alone.
    pub(super) fn handle_disconnected(&mut self) {
        self.requests.retain(|_, unsent| unsent.aside.is_told());
        self.bytes = self.requests.values().map(|unsent| unsent.frame.len()).sum();
    }
}
