//! What a proxy must know of a protocol: where its frames end, what they ask, and which reply answers which request.

use std::fmt;

use super::conversation::Conversation;
use super::frames::{Length, Operation, Piece, Splitter};
use super::mysql::MySql;
use super::postgres::Postgres;
use super::record::Direction;
use super::state::{Armed, Protocol, Shared};

/// The state of one connection in its protocol.
pub(super) trait Talk: fmt::Debug + Send {
    /// Takes in what came from one side.
    fn add(&mut self, direction: Direction, bytes: &[u8]);

    /// The next whole piece of one side, if it has come in.
    fn next(&mut self, direction: Direction) -> Option<Piece>;

    /// What is left of one side when it has ended, possibly within a frame.
    fn rest(&mut self, direction: Direction) -> Vec<u8>;

    /// What a frame is, and what becomes of it.
    fn meaning(&mut self, direction: Direction, frame: &[u8], shared: &Shared) -> Meaning;
}

/// What a frame is.
#[derive(Debug)]
pub(super) struct Meaning {
    pub(super) operation: Operation,
    pub(super) xid: Option<i32>,
    pub(super) error: Option<i32>,
    /// What it says to people: a statement, or the code of an error.
    pub(super) text: String,
    pub(super) verdict: Verdict,
}

/// What becomes of a frame.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is passed on, after those that were kept.
    Pass,
    /// It is kept until it is known whether it is to be lost.
    Keep,
    /// It is lost, with those that were kept.
    Lose(Armed),
}

impl Meaning {
    pub(super) fn of(operation: Operation) -> Self {
        Self { operation, xid: None, error: None, text: String::new(), verdict: Verdict::Pass }
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
struct Bytes([Splitter; 2]);

impl Talk for Bytes {
    fn add(&mut self, direction: Direction, bytes: &[u8]) {
        self.0[direction.index()].add(bytes);
    }

    fn next(&mut self, direction: Direction) -> Option<Piece> {
        self.0[direction.index()].next(|_| Length::None)
    }

    fn rest(&mut self, direction: Direction) -> Vec<u8> {
        self.0[direction.index()].rest()
    }

    fn meaning(&mut self, _: Direction, _: &[u8], _: &Shared) -> Meaning {
        Meaning::of(Operation::UNMATCHED)
    }
}
