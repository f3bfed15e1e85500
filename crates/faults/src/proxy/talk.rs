//! A proxy's knowledge of a protocol: where its frames end, what they ask, and which reply answers which request.

use std::fmt;

use super::conversation::Conversation;
use super::frames::{Length, Operation};
use super::mysql::MySql;
use super::postgres::Postgres;
use super::record::Direction;
use super::state::{Armed, Protocol, Shared};

/// The state of one connection in its protocol.
pub(super) trait Talk: fmt::Debug + Send {
    /// How long the first frame is among the bytes that have come from one side.
    fn length(&self, direction: Direction, bytes: &[u8]) -> Length;

    /// What a frame is, and whether it is lost.
    fn meaning(&mut self, direction: Direction, frame: &[u8], shared: &Shared) -> Meaning;
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
    pub(super) fn of(operation: Operation) -> Self {
        Self { operation, xid: None, error: None, lost: None }
    }
}

impl Protocol {
    /// A connection that begins.
    pub(super) fn talk(self) -> Box<dyn Talk> {
        match self {
            Self::ZooKeeper => Box::<Conversation>::default(),
            Self::Postgres => Box::<Postgres>::default(),
            Self::MySql => Box::<MySql>::default(),
            Self::Other => Box::<Bytes>::default(),
        }
    }
}

/// A protocol that is not known: its bytes are passed on as they come.
#[derive(Debug, Default)]
struct Bytes;

impl Talk for Bytes {
    fn length(&self, _: Direction, _: &[u8]) -> Length {
        Length::None
    }

    fn meaning(&mut self, _: Direction, _: &[u8], _: &Shared) -> Meaning {
        Meaning::of(Operation::UNMATCHED)
    }
}
