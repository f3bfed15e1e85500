//! Requests of sessions, and the answers of the database.

use lockkeeper_core::Ticket;

use crate::statement::{AnswerRow, RowKind};
use crate::timing::SessionBeat;

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Request {
    /// Over a connection that was just opened, or over one that may lead elsewhere since.
    Greet {
        is_new: bool,
    },
    Settle(String),
    Doubt(String),
    Limit {
        timeout_max_ms: u64,
    },
    Resume {
        epoch: i64,
        beat: i64,
        kept: Option<Ticket>,
    },
    Beat {
        epoch: i64,
        beat: i64,
        own: Option<Ticket>,
        awaited: Option<Ticket>,
    },
    Reap(SessionBeat),
    Join {
        epoch: i64,
        ticket: Ticket,
    },
    Leave(Ticket),
    Look(Ticket),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Answer {
    pub(super) word: &'static str,
    /// The name of the state; `None` where one that is not settled has none.
    pub(super) state: Option<u64>,
    /// For how long it is to be waited for; in the answer to a beat the greatest timeout.
    pub(super) timeout_ms: u64,
    pub(super) missing: Vec<Ticket>,
    pub(super) stands: Option<Ticket>,
    /// The contender that is waited for, if it is there.
    pub(super) owned: Option<Ticket>,
    pub(super) beats: Vec<SessionBeat>,
    pub(super) token: Option<i64>,
    /// The contenders ahead; `None` if the one that was asked for is not there.
    pub(super) ahead: Option<Vec<Ticket>>,
}

impl Answer {
    pub(super) fn new(word: &'static str) -> Self {
        let (missing, beats) = (Vec::new(), Vec::new());
        Self { word, state: None, timeout_ms: 0, missing, stands: None, owned: None, beats, token: None, ahead: None }
    }

    /// The rows that sessions read.
    pub(super) fn rows(&self) -> Vec<AnswerRow> {
        let status = AnswerRow {
            text: Some(self.word.to_owned()),
            ask: Some(self.state.map_or_else(String::new, |state| state.to_string())),
            timeout_ms: i64::try_from(self.timeout_ms).ok(),
            ..AnswerRow::default()
        };
        let of = |what: RowKind, ticket: &Ticket| AnswerRow {
            what: what as i16,
            ticket: Some(ticket.bits()),
            ..AnswerRow::default()
        };
        let missing = self.missing.iter().map(|ticket| of(RowKind::Missing, ticket));
        let stands = self.stands.iter().map(|ticket| of(RowKind::Stands, ticket));
        std::iter::once(status).chain(missing).chain(stands).collect()
    }
}
