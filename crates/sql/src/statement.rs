//! Statements for a database: a stored function by its name, and the rows with which each of them answers. Many places
//! that are given up at once go in one statement, since each by itself is a transaction, which the disk must have.
//!
//! Both engines have the same functions with the same arguments and the same columns, so that all above knows no SQL.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{Extent, Part, QueueName, Ticket};
use lockkeeper_session::Failure;

/// A session's number, which names it in the tables.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct SessionNumber(pub(crate) u128);

/// Something to be asked: a stored function and its arguments, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    /// The function's name without its version: `join` stands for `join_v1`.
    pub(crate) function: &'static str,
    pub(crate) arguments: Vec<Argument>,
    wanted: StillWanted,
}

/// Whether a statement that waits in a line is still wanted.
#[derive(Clone, Default)]
struct StillWanted(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl fmt::Debug for StillWanted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("StillWanted").field(&self.0.is_some()).finish()
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
pub(crate) struct AnswerRow {
    /// What it says, see [`RowKind`].
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
pub(crate) enum RowKind {
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
    /// A server setting: `text` (its name), `ask` (its value, if it is known).
    Fact = 13,
    /// A contender where all queues are shown: as [`Contender`](Self::Contender), with `bytes` (the name of its queue)
    /// and `epoch` (the queue's part).
    Placed = 14,
    /// A contender that the call has removed: `ticket`.
    Left = 15,
    /// How many have joined a queue: `bytes` (its name), `epoch` (its part), `number` (the count), `timeout_ms` (when
    /// it did not rest last, in milliseconds since 1970).
    Joined = 16,
}

impl RowKind {
    /// All of them, by their numbers.
    pub(crate) const ALL: [Self; 17] = [
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
        Self::Joined,
    ];

    /// Reads a row's kind; that of a later version is not known.
    pub(crate) fn of(number: i16) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

impl Statement {
    pub(crate) const fn new(function: &'static str, arguments: Vec<Argument>) -> Self {
        Self { function, arguments, wanted: StillWanted(None) }
    }

    /// The same statement, which is not sent if it is not wanted any more when its turn comes.
    pub(crate) fn while_wanted(self, is_wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { wanted: StillWanted(Some(Arc::new(is_wanted))), ..self }
    }

    /// Whether it is to be sent now that its turn has come.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.0.as_ref().is_none_or(|is_wanted| is_wanted())
    }
}

/// The answer to a statement that was not sent, since it was not wanted any more.
pub(crate) fn unwanted() -> Vec<AnswerRow> {
    vec![AnswerRow { what: RowKind::Status as i16, text: Some(UNWANTED.to_owned()), ..AnswerRow::default() }]
}

/// The word of that answer.
pub(crate) const UNWANTED: &str = "unwanted";

pub(crate) fn tickets(rows: &[AnswerRow], what: RowKind) -> impl Iterator<Item = Ticket> {
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

impl AnswerRow {
    pub(crate) const fn says(&self, what: RowKind) -> bool {
        self.what == what as i16
    }
}

/// Returns the word of an answer's status.
pub(crate) fn word(rows: &[AnswerRow]) -> Result<&str, Failure> {
    status(rows)?.text.as_deref().ok_or_else(Failure::unexpected)
}

/// Returns the first row of an answer: its status.
pub(crate) fn status(rows: &[AnswerRow]) -> Result<&AnswerRow, Failure> {
    rows.first().filter(|row| row.says(RowKind::Status)).ok_or_else(Failure::unexpected)
}

impl SessionNumber {
    /// A number that is unlike those of other sessions.
    pub(crate) const fn seed(self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "half of the bits are as good as all")]
        let seed = self.0 as u64;
        seed
    }
}

/// As the tables' readers write it: 32 hexadecimal digits.
impl fmt::Display for SessionNumber {
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

impl From<SessionNumber> for Argument {
    fn from(session: SessionNumber) -> Self {
        Self::Id(session.0)
    }
}

/// How a statement names a queue: its name, and its part.
pub(crate) fn named(queue: &QueueName) -> [Argument; 2] {
    [Argument::Text(queue.as_str().to_owned()), Argument::Int(part_number(queue.part()))]
}

/// The statement that looks at a queue, or at what decides for the contender with this ticket.
pub(crate) fn looking(queue: &QueueName, extent: Extent<'_>) -> Statement {
    let (around, whole) = match extent {
        Extent::Whole => (None, true),
        // What is no contender of ours is not there.
        Extent::Around(place) => (place.and_then(|place| Ticket::parse(place.as_str())), false),
    };
    let [name, part] = named(queue);
    Statement::new("look", vec![name, part, Argument::OptionalId(around.map(Ticket::bits)), Argument::Flag(whole)])
}

/// The most places that one statement gives up: others wait for their queues meanwhile, a hundredth of a second.
pub(crate) const LEAVES_MAX: usize = 256;

/// The function that gives up one place, and that for many.
const LEAVE: &str = "leave";
const LEAVE_ALL: &str = "leave_all";

/// The session and the ticket of a place that a statement gives up, if it does that alone.
pub(crate) fn place(statement: &Statement) -> Option<(u128, u128)> {
    match (statement.function, &statement.arguments[..]) {
        (LEAVE, [Argument::Id(session), .., Argument::Id(ticket)]) => Some((*session, *ticket)),
        _ => None,
    }
}

/// The statement that gives up all of these places of a session.
pub(crate) fn leave_all(session: u128, tickets: Vec<u128>) -> Statement {
    Statement::new(LEAVE_ALL, vec![Argument::Id(session), Argument::Ids(tickets)])
}

/// The part of that answer for one of the tickets: the answer that [`LEAVE`] would have had.
pub(crate) fn of_one(rows: &[AnswerRow], ticket: u128) -> Vec<AnswerRow> {
    let says = |what| rows.iter().any(|row| row.says(what) && row.ticket == Some(ticket));
    let word = match word(rows) {
        _ if says(RowKind::Left) => "left",
        _ if says(RowKind::Broken) => "broken",
        Ok(word) => word,
        // It is told as it is.
        Err(_) => return rows.to_vec(),
    };
    vec![AnswerRow { what: RowKind::Status as i16, text: Some(word.to_owned()), ..AnswerRow::default() }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_row_is_read_by_its_number() {
        assert!(RowKind::ALL.into_iter().all(|what| RowKind::of(what as i16) == Some(what)));
        assert_eq!([-1, 17].map(RowKind::of), [None; 2]);
    }

    #[test]
    fn each_of_many_places_is_answered_as_if_it_were_left_alone() {
        let leave =
            Statement::new(LEAVE, vec![Argument::Id(1), Argument::Text("a".into()), Argument::Int(0), Argument::Id(7)]);
        assert_eq!((place(&leave), place(&leave_all(1, vec![7]))), (Some((1, 7)), None));
        let row = |what: RowKind, ticket, text: Option<&str>| AnswerRow {
            what: what as i16,
            ticket,
            text: text.map(str::to_owned),
            ..AnswerRow::default()
        };
        let rows = [
            row(RowKind::Status, None, Some("removed")),
            row(RowKind::Left, Some(7), None),
            row(RowKind::Broken, Some(8), None),
        ];
        for (ticket, expected) in [(7, "left"), (8, "broken"), (9, "removed")] {
            assert_eq!(word(&of_one(&rows, ticket)).expect("a word"), expected);
        }
        assert!(word(&of_one(&[], 7)).is_err());
    }
}
