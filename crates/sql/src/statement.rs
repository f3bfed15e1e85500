//! Statements for a database: a stored function by its name, and the rows with which each of them answers.
//!
//! Both engines have the same functions with the same arguments and the same columns, so that all above knows no SQL.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{Part, Ticket};
use lockkeeper_session::Failure;

/// A session's number, which names it in the tables.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct SessionId(pub(crate) u128);

/// Something to be asked: a stored function and its arguments, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    /// The function's name without its version: `join` stands for `join_v1`.
    pub(crate) function: &'static str,
    pub(crate) arguments: Vec<Argument>,
    wanted: Wanted,
}

/// Whether a statement that waits in a line is still wanted.
#[derive(Clone, Default)]
struct Wanted(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl fmt::Debug for Wanted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Wanted").field(&self.0.is_some()).finish()
    }
}

/// One argument of a function. Its kind is fixed by the function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    /// A ticket's or a session's bits, in the order in which they are written as hexadecimal digits.
    Id(u128),
    OptionalId(Option<u128>),
    /// Any number of them.
    Ids(Vec<u128>),
    Int(i64),
    OptionalInt(Option<i64>),
    Flag(bool),
    Text(String),
    OptionalText(Option<String>),
    Bytes(Vec<u8>),
    OptionalBytes(Option<Vec<u8>>),
}

/// One row of an answer. Which columns are set follows from `what`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    /// What it says, see [`What`].
    pub(crate) what: i16,
    pub(crate) ticket: Option<u128>,
    pub(crate) session: Option<u128>,
    /// A token, a beat, a version or a count.
    pub(crate) number: Option<i64>,
    /// Where a contender stands among those of one token.
    pub(crate) place: Option<f64>,
    pub(crate) mode: Option<i16>,
    pub(crate) epoch: Option<i64>,
    pub(crate) timeout_ms: Option<i64>,
    pub(crate) text: Option<String>,
    pub(crate) ask: Option<String>,
    pub(crate) bytes: Option<Vec<u8>>,
}

/// What a row says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum What {
    /// How the call ended: a word in `text`; always the first row.
    Status = 0,
    /// A contender that the call has stored, or had stored before: `ticket`, `number` (its token), `place`.
    Stored = 1,
    /// A contender of the session that stands: `ticket`.
    Stands = 2,
    /// A contender of the session that was broken: `ticket`.
    Broken = 3,
    /// A contender of the session that is asked to give up: `ticket`, `ask`.
    Asked = 4,
    /// A contender that was asked for and is not there: `ticket`.
    Missing = 5,
    /// A session to be observed: `session`, `number` (its beat), `epoch`, `timeout_ms`.
    Beat = 6,
    /// A contender in a queue: `ticket`, `mode`, `number` (its token), `place`; where people look also `session`,
    /// `text` (its record) and `ask`.
    Contender = 7,
    /// How many contenders ahead are not shown: `number`.
    Omitted = 8,
    /// The mode of the first contender in the other part of the lock: `mode`.
    Elsewhere = 9,
    /// The value of a queue: `number` (its version), `bytes`.
    Value = 10,
    /// A queue: `text` (its name), `number` (its part).
    Queue = 11,
    /// Which session a contender that was asked for belongs to: `ticket`, `session`.
    Owner = 12,
    /// What is so at the server: `text` (its name), `ask` (its value, if it is known).
    Fact = 13,
    /// A contender where all queues are shown: as [`Contender`](Self::Contender), with `bytes` (the name of its queue)
    /// and `epoch` (the queue's part).
    Placed = 14,
    /// A contender that the call has removed: `ticket`.
    Left = 15,
}

impl What {
    /// All of them, by their numbers.
    pub(crate) const ALL: [Self; 16] = [
        Self::Status,
        Self::Stored,
        Self::Stands,
        Self::Broken,
        Self::Asked,
        Self::Missing,
        Self::Beat,
        Self::Contender,
        Self::Omitted,
        Self::Elsewhere,
        Self::Value,
        Self::Queue,
        Self::Owner,
        Self::Fact,
        Self::Placed,
        Self::Left,
    ];

    /// Reads a row's kind; that of a later version is not known.
    pub(crate) fn of(number: i16) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

impl Statement {
    pub(crate) const fn new(function: &'static str, arguments: Vec<Argument>) -> Self {
        Self { function, arguments, wanted: Wanted(None) }
    }

    /// The same statement, which is not sent if it is not wanted any more when its turn comes.
    pub(crate) fn while_wanted(self, is_wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { wanted: Wanted(Some(Arc::new(is_wanted))), ..self }
    }

    /// Whether it is to be sent now that its turn has come.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.0.as_ref().is_none_or(|is_wanted| is_wanted())
    }
}

/// What one is answered that was not sent, since it was not wanted any more.
pub(crate) fn unwanted() -> Vec<Row> {
    vec![Row { what: What::Status as i16, text: Some(UNWANTED.to_owned()), ..Row::default() }]
}

/// The word of that answer.
pub(crate) const UNWANTED: &str = "unwanted";

/// Returns the tickets of the rows that say this.
pub(crate) fn tickets(rows: &[Row], what: What) -> impl Iterator<Item = Ticket> {
    rows.iter().filter(move |row| row.says(what)).filter_map(|row| row.ticket.map(Ticket::from_bits))
}

/// The number by which the functions know a part of a lock.
pub(crate) const fn part_number(part: Part) -> i64 {
    match part {
        Part::Line => 0,
        Part::Waiters => 1,
        Part::Permits => 2,
    }
}

/// The parts of a lock, as they are shown: of a semaphore the permits come first.
pub(crate) const PARTS: [Part; 3] = [Part::Line, Part::Permits, Part::Waiters];

impl Row {
    pub(crate) const fn says(&self, what: What) -> bool {
        self.what == what as i16
    }
}

/// Returns the word of an answer's status.
pub(crate) fn word(rows: &[Row]) -> Result<&str, Failure> {
    status(rows)?.text.as_deref().ok_or_else(Failure::unexpected)
}

/// Returns the first row of an answer: its status.
pub(crate) fn status(rows: &[Row]) -> Result<&Row, Failure> {
    rows.first().filter(|row| row.says(What::Status)).ok_or_else(Failure::unexpected)
}

impl SessionId {
    /// A number that is unlike those of other sessions.
    pub(crate) const fn seed(self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "half of the bits are as good as all")]
        let seed = self.0 as u64;
        seed
    }
}

/// As the tables' readers write it: 32 hexadecimal digits.
impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

impl From<&[Ticket]> for Argument {
    fn from(tickets: &[Ticket]) -> Self {
        Self::Ids(tickets.iter().map(|ticket| ticket.bits()).collect())
    }
}

impl From<Ticket> for Argument {
    fn from(ticket: Ticket) -> Self {
        Self::Id(ticket.bits())
    }
}

impl From<SessionId> for Argument {
    fn from(session: SessionId) -> Self {
        Self::Id(session.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_row_is_read_by_its_number() {
        assert!(What::ALL.into_iter().all(|what| What::of(what as i16) == Some(what)));
        assert_eq!([-1, 16].map(What::of), [None; 2]);
    }
}
