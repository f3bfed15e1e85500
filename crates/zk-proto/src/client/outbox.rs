//! Requests that have not been sent: a few that go ahead, and the others in the order of submission.

use std::collections::BTreeMap;

use bytes::BytesMut;

use crate::client::config::{QUEUED_AHEAD_MAX, QUEUED_BYTES_MAX, QUEUED_REQUESTS_MAX};
use crate::client::event::RequestId;
use crate::message::{OpCode, WatcherKind};
use crate::time::Timestamp;

/// A request ready to go but for its xid.
#[derive(Debug)]
pub(super) struct Unsent {
    /// The whole frame, with an xid of 0.
    pub(super) frame: BytesMut,
    pub(super) open: Open,
    pub(super) change: RequestChange,
}

/// The record of a request whose caller waits.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) opcode: OpCode,
    pub(super) deadline: Option<Timestamp>,
    pub(super) aside: Aside,
    /// The node whose children it lists, if it does: that answer may be long.
    pub(super) lists: Option<Box<str>>,
    /// Whether it shows its node's children as they were before requests that were sent ahead of it.
    pub(super) is_outdated: bool,
}

/// The change that a request makes, as far as it matters for its companions.
#[derive(Debug)]
pub(super) enum RequestChange {
    /// Nothing, or something else.
    Other,
    Deletes(Box<str>),
    Makes {
        below: Box<str>,
        company: Company,
    },
}

/// What a creation may share a transaction with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Company {
    Alone,
    Deletions,
}

impl Unsent {
    /// A request of the machine's own.
    pub(super) const fn own(frame: BytesMut, opcode: OpCode, aside: Aside) -> Self {
        let open = Open { opcode, deadline: None, aside, lists: None, is_outdated: false };
        Self { frame, open, change: RequestChange::Other }
    }

    pub(super) fn makes_below(&self) -> Option<&str> {
        match &self.change {
            RequestChange::Makes { below, .. } => Some(below),
            RequestChange::Other | RequestChange::Deletes(_) => None,
        }
    }
}

/// What a request means to the machine itself.
#[derive(Debug)]
pub(super) enum Aside {
    Nothing,
    /// It asks for a watch, known in the registry by the request's id.
    Watch,
    /// It removes watches; there may be no caller that waits for the answer.
    Removal {
        path: String,
        kind: WatcherKind,
        audience: Audience,
    },
    /// It ends the session; only the machine waits for the answer.
    Close,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Audience {
    Caller,
    /// No caller: the machine cleans up after a forgotten watch.
    NoCaller,
}

impl Aside {
    pub(super) const fn is_told(&self) -> bool {
        !matches!(self, Self::Removal { audience: Audience::NoCaller, .. } | Self::Close)
    }
}

/// A queue with a maximum, from which a request can be taken by its id.
#[derive(Debug, Default)]
pub(super) struct RequestQueue {
    requests: BTreeMap<SendTurn, (RequestId, Unsent)>,
    turns: BTreeMap<RequestId, SendTurn>,
    bytes: usize,
    ahead: usize,
    last_number: u64,
}

/// Where a request stands: each rank before the next one, and each in the order of arrival.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct SendTurn {
    rank: SendRank,
    number: u64,
}

/// Which requests a request goes out before.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum SendRank {
    /// Before all requests in their turn.
    Ahead,
    /// Before all requests in their turn, but not before a proof.
    Deletion,
    /// Behind all earlier requests.
    InTurn,
}

impl RequestQueue {
    pub(super) fn is_full_for(&self, bytes: usize, rank: SendRank) -> bool {
        match rank {
            SendRank::Ahead => self.ahead >= QUEUED_AHEAD_MAX,
            SendRank::Deletion | SendRank::InTurn => {
                self.requests.len() - self.ahead >= QUEUED_REQUESTS_MAX
                    || self.bytes.saturating_add(bytes) > QUEUED_BYTES_MAX
            }
        }
    }

    pub(super) fn push(&mut self, id: RequestId, unsent: Unsent, rank: SendRank) {
        self.last_number += 1;
        self.put_back(id, unsent, SendTurn { rank, number: self.last_number });
    }

    pub(super) fn put_back(&mut self, id: RequestId, unsent: Unsent, turn: SendTurn) {
        self.bytes += unsent.frame.len();
        self.ahead += usize::from(turn.rank == SendRank::Ahead);
        self.turns.insert(id, turn);
        self.requests.insert(turn, (id, unsent));
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Unsent> {
        let turn = self.turns.remove(&id)?;
        let (_, unsent) = self.requests.remove(&turn)?;
        self.note_gone(turn, &unsent);
        Some(unsent)
    }

    pub(super) fn pop(&mut self) -> Option<(RequestId, Unsent)> {
        self.pop_with_turn().map(|(_, id, unsent)| (id, unsent))
    }

    /// Takes the next request, and tells where it stood.
    pub(super) fn pop_with_turn(&mut self) -> Option<(SendTurn, RequestId, Unsent)> {
        let (turn, (id, unsent)) = self.requests.pop_first()?;
        self.turns.remove(&id);
        self.note_gone(turn, &unsent);
        Some((turn, id, unsent))
    }

    fn note_gone(&mut self, turn: SendTurn, unsent: &Unsent) {
        self.bytes -= unsent.frame.len();
        self.ahead -= usize::from(turn.rank == SendRank::Ahead);
    }

    /// Whether all of these are here.
    pub(super) fn has_all(&self, ids: &[RequestId]) -> bool {
        ids.iter().all(|id| self.turns.contains_key(id))
    }

    pub(super) fn next(&self) -> Option<(SendRank, &Unsent)> {
        self.requests.first_key_value().map(|(turn, (_, unsent))| (turn.rank, unsent))
    }

    /// The nodes that the next requests delete, as far as these may go together: so many at most, and so many bytes of
    /// paths.
    pub(super) fn deletions(&self, count_max: usize, bytes_max: usize) -> Vec<&str> {
        let mut bytes = 0;
        let next = self.requests.iter().map_while(|(turn, (_, unsent))| {
            bytes += unsent.frame.len();
            let is_next = turn.rank == SendRank::Deletion && bytes <= bytes_max;
            match &unsent.change {
                RequestChange::Deletes(path) if is_next => Some(&**path),
                _ => None,
            }
        });
        next.take(count_max).collect()
    }

    /// The request behind so many others, if it may go along with them. Not if another one that makes a node below the
    /// same one waits too: it would have to wait for the answer.
    pub(super) fn going_along_behind(&self, count: usize) -> Option<&Unsent> {
        let mut waiting = self.requests.values().skip(count).map(|(_, unsent)| unsent);
        let along = waiting.next()?;
        let RequestChange::Makes { below, company: Company::Deletions } = &along.change else { return None };
        let is_last = waiting.all(|unsent| unsent.makes_below() != Some(below));
        is_last.then_some(along)
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Drops what makes sense on the present connection alone.
    pub(super) fn handle_disconnected(&mut self) {
        let stale = self.requests.values().filter(|(_, unsent)| !unsent.open.aside.is_told()).map(|(id, _)| *id);
        for id in stale.collect::<Vec<_>>() {
            self.remove(id);
        }
    }
}

pub(super) fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
