//! The children of a queue's node, as one list showed them. Asking for a list is left to `shared_list` and `viewing`.

use std::sync::OnceLock;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Part, QueueView};
use lockkeeper_zk_proto::message::{ErrorCode, OpCode, Response};

use crate::error::ClientError;
use crate::link::Answer;

/// Says what a list must show.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Freshness {
    /// All that this connection was told of; it may be older than what other clients know.
    Behind,
    /// All that was acknowledged to any client before: a sync goes before the list.
    Synced,
}

/// The children of a queue's node, as they were listed on one connection.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) epoch: u64,
    /// `None` if there is no such node.
    pub(super) children: Option<Vec<String>>,
    /// Those of the lock's own node, if the queue lies elsewhere.
    pub(super) line: Vec<String>,
    /// If what was made before this time stands at all, it is in the list.
    pub(super) asked_at: BootInstant,
    /// What the list says, read when it is first needed.
    pub(super) reading: OnceLock<Reading>,
    /// Whether it misses a place of ours, found out when it is first needed.
    pub(super) misses_any: OnceLock<bool>,
}

/// What a list says of a queue.
#[derive(Debug)]
pub(super) struct Reading {
    /// The queue, as far as this list shows it.
    pub(super) view: QueueView,
    pub(super) foreign: Option<String>,
    pub(super) parts: Vec<Part>,
}

impl Listing {
    /// Reads the answers: to a sync if there was one, to the list of the queue, and to that of the lock's own node if
    /// it was listed along.
    pub(super) fn of_answers(
        mut answers: impl Iterator<Item = Answer>,
        freshness: Freshness,
        asked_at: BootInstant,
    ) -> Result<Self, ClientError> {
        let mut next = || answers.next();
        if freshness == Freshness::Synced
            && let Some(sync) = next()
        {
            sync.result?;
        }
        let queue = next().ok_or_else(|| ClientError::unexpected(OpCode::GetChildren, ""))?;
        let (epoch, children) = children(queue)?;
        let line = match next() {
            Some(line) => self::children(line)?.1.unwrap_or_default(),
            None => Vec::new(),
        };
        let (reading, misses_any) = (OnceLock::new(), OnceLock::new());
        Ok(Self { epoch, children, line, asked_at, reading, misses_any })
    }
}

/// Reads the answer to a list: the connection, and the children if there is such a node.
fn children(Answer { epoch, result, .. }: Answer) -> Result<(u64, Option<Vec<String>>), ClientError> {
    match result {
        Ok(Response::GetChildren { children }) => Ok((epoch, Some(children))),
        Ok(_) => Err(ClientError::unexpected(OpCode::GetChildren, "")),
        Err(error) if error.is(ErrorCode::NoNode) => Ok((epoch, None)),
        Err(error) => Err(error),
    }
}
