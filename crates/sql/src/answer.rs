//! Reads the rows of answers: the one place that does. What a later version has added is passed over; what is missing
//! makes an answer one to another question. Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use lockkeeper_core::{
    ConnectionNumber, Contender, ContenderId, ContenderInfo, FencingToken, Mode, QueueName, QueueView, Ticket, Value,
    ValueVersion,
};
use lockkeeper_session::{Ask, Failure, Record};

use crate::statement::{AnswerRow, PARTS, RowKind, part_number, status, word};
use crate::timing::SessionBeat;

/// All modes, in the order of their numbers.
const MODES: [Mode; 8] =
    [Mode::Mutex, Mode::Read, Mode::Write, Mode::Exclusive, Mode::Acquire, Mode::Permit, Mode::Candidate, Mode::Member];

pub(crate) fn mode_number(mode: Mode) -> u8 {
    let found = MODES.iter().position(|known| *known == mode);
    u8::try_from(found.expect("it lists them all")).expect("there are eight")
}

/// Reads a mode. Whom a mode of a later version excludes is not known, so it is taken for one that excludes all.
fn mode_of(number: i16) -> Mode {
    usize::try_from(number).ok().and_then(|at| MODES.get(at).copied()).unwrap_or(Mode::Exclusive)
}

#[derive(Debug)]
pub(crate) struct SqlAnswer {
    /// How the call ended.
    pub(crate) word: String,
    number: Option<i64>,
    shown: Vec<(RowKind, AnswerRow)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct StoredRow {
    pub(crate) ticket: Ticket,
    pub(crate) token: FencingToken,
}

/// How many have joined a queue since its count began.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct QueueCount {
    pub(crate) queue: QueueName,
    pub(crate) joined: i64,
    /// When the queue did not rest last, in milliseconds since 1970 by the server's clock.
    pub(crate) last_ms: i64,
}

impl SqlAnswer {
    /// Reads what every function answers: a status, and rows behind it.
    pub(crate) fn read(rows: Vec<AnswerRow>) -> Result<Self, Failure> {
        let (word, number) = (word(&rows)?.to_owned(), status(&rows)?.number);
        let shown = rows.into_iter().skip(1).filter_map(|row| RowKind::of(row.what).map(|what| (what, row))).collect();
        Ok(Self { word, number, shown })
    }

    /// Reads the answer of a function that always says `ok`.
    pub(crate) fn read_ok(rows: Vec<AnswerRow>) -> Result<Self, Failure> {
        Self::read(rows).and_then(|answer| if answer.word == "ok" { Ok(answer) } else { Err(Failure::unexpected()) })
    }

    pub(crate) fn number(&self) -> Result<i64, Failure> {
        self.number.ok_or_else(Failure::unexpected)
    }

    fn each(&self, what: RowKind) -> impl Iterator<Item = &AnswerRow> {
        self.shown.iter().filter(move |(shown, _)| *shown == what).map(|(_, row)| row)
    }

    pub(crate) fn stored(&self) -> Result<Vec<StoredRow>, Failure> {
        self.each(RowKind::Stored).map(|row| Ok(StoredRow { ticket: ticket(row)?, token: token(row)? })).collect()
    }

    /// The contenders that the answer shows, in no order.
    pub(crate) fn standing(&self) -> Result<Vec<StoredRow>, Failure> {
        self.each(RowKind::Contender).map(|row| Ok(StoredRow { ticket: ticket(row)?, token: token(row)? })).collect()
    }

    /// The queue as the answer shows it.
    pub(crate) fn view(&self, connection: ConnectionNumber) -> Result<QueueView, Failure> {
        let mut rows = self.each(RowKind::Contender).map(ContenderRow::of).collect::<Result<Vec<_>, _>>()?;
        rows.sort_unstable_by(ContenderRow::order);
        let contenders: Vec<_> = rows.iter().map(ContenderRow::contender).collect();
        let mut view = QueueView::new(connection, contenders);
        let mut omitted = self.each(RowKind::Omitted).map(number);
        if let Some(omitted) = omitted.next().transpose()? {
            view.omitted = usize::try_from(omitted).map_err(|_| Failure::unexpected())?;
        }
        let mut elsewhere = self.each(RowKind::Elsewhere).map(mode);
        view.elsewhere = elsewhere.next().transpose()?;
        Ok(view)
    }

    /// The value of a queue; `None` if it has none.
    pub(crate) fn value(&self) -> Result<Option<Value>, Failure> {
        let Some(row) = self.each(RowKind::Value).next() else { return Ok(None) };
        let bytes = row.bytes.as_deref().ok_or_else(Failure::unexpected)?;
        Ok(Some(Value { version: version(number(row)?)?, bytes: bytes.into() }))
    }

    /// The contenders of a queue, as operators see them.
    pub(crate) fn infos(&self) -> Result<Vec<ContenderInfo>, Failure> {
        Ok(infos(self.each(RowKind::Contender).map(ContenderRow::of).collect::<Result<_, _>>()?))
    }

    /// The contenders of all locks, as operators see them. What stands where no lock can have any is passed over.
    pub(crate) fn locks(&self) -> Result<BTreeMap<QueueName, Vec<Arc<ContenderInfo>>>, Failure> {
        let mut queues: BTreeMap<_, [Vec<ContenderRow<'_>>; PARTS.len()]> = BTreeMap::new();
        for row in self.each(RowKind::Placed) {
            if let Some((name, part)) = queue(row)? {
                queues.entry(name).or_default()[part].push(ContenderRow::of(row)?);
            }
        }
        let shared = |rows| infos(rows).into_iter().map(Arc::new);
        Ok(queues.into_iter().map(|(name, parts)| (name, parts.into_iter().flat_map(shared).collect())).collect())
    }

    /// The sessions that an answer shows, each with its last beat; none of a server whose functions are older.
    pub(crate) fn beats(&self) -> Vec<SessionBeat> {
        self.each(RowKind::Beat).filter_map(SessionBeat::read).collect()
    }

    /// How many have joined the queues that an answer shows, in no order.
    pub(crate) fn counts(&self) -> Result<Vec<QueueCount>, Failure> {
        let mut counts = Vec::new();
        for row in self.each(RowKind::Joined) {
            if let Some((name, part)) = queue(row)? {
                let last_ms = row.timeout_ms.ok_or_else(Failure::unexpected)?;
                counts.push(QueueCount { queue: name.with_part(PARTS[part]), joined: number(row)?, last_ms });
            }
        }
        Ok(counts)
    }

    /// The names of locks, in no order, as often as they have queues. A name that no lock can have is passed over.
    pub(crate) fn names(&self) -> Result<Vec<QueueName>, Failure> {
        let texts = self.each(RowKind::Queue).map(|row| row.text.as_deref().ok_or_else(Failure::unexpected));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        Ok(texts.into_iter().filter_map(|text| QueueName::new(text).ok()).collect())
    }
}

/// The lock of a queue that a row names, and which of [`PARTS`] the queue is; `None` if no lock can have it.
fn queue(row: &AnswerRow) -> Result<Option<(QueueName, usize)>, Failure> {
    let (Some(name), Some(part)) = (row.bytes.as_deref(), row.epoch) else { return Err(Failure::unexpected()) };
    let name = str::from_utf8(name).ok().and_then(|name| QueueName::new(name).ok());
    Ok(name.zip(PARTS.iter().position(|&known| part_number(known) == part)))
}

fn infos(mut rows: Vec<ContenderRow<'_>>) -> Vec<ContenderInfo> {
    rows.sort_unstable_by(ContenderRow::order);
    rows.iter().map(ContenderRow::info).collect()
}

pub(crate) fn version(number: i64) -> Result<ValueVersion, Failure> {
    u128::try_from(number).map(ValueVersion).map_err(|_| Failure::unexpected())
}

struct ContenderRow<'a> {
    ticket: Ticket,
    mode: Mode,
    token: FencingToken,
    place: f64,
    row: &'a AnswerRow,
}

impl<'a> ContenderRow<'a> {
    fn of(row: &'a AnswerRow) -> Result<Self, Failure> {
        let place = row.place.ok_or_else(Failure::unexpected)?;
        Ok(Self { ticket: ticket(row)?, mode: mode(row)?, token: token(row)?, place, row })
    }

    fn order(&self, other: &Self) -> Ordering {
        let by_token = self.token.cmp(&other.token).then(self.place.total_cmp(&other.place));
        by_token.then(self.ticket.cmp(&other.ticket))
    }

    fn contender(&self) -> Contender {
        Contender { id: id_of(self.ticket), ticket: Some(self.ticket), mode: self.mode }
    }

    fn info(&self) -> ContenderInfo {
        let mut info = ContenderInfo::new(id_of(self.ticket), self.mode);
        info.ticket = Some(self.ticket);
        info.token = Some(self.token);
        info.session = self.row.session.map(|session| format!("{session:032x}"));
        if let Some(record) = self.row.text.as_deref().and_then(Record::read) {
            record.describe(&mut info);
        }
        info.revocation = self.row.ask.as_deref().and_then(Ask::read);
        info
    }
}

fn ticket(row: &AnswerRow) -> Result<Ticket, Failure> {
    row.ticket.map(Ticket::from_bits).ok_or_else(Failure::unexpected)
}

fn number(row: &AnswerRow) -> Result<i64, Failure> {
    row.number.ok_or_else(Failure::unexpected)
}

fn mode(row: &AnswerRow) -> Result<Mode, Failure> {
    row.mode.map(mode_of).ok_or_else(Failure::unexpected)
}

fn token(row: &AnswerRow) -> Result<FencingToken, Failure> {
    let grant = u64::try_from(number(row)?).ok();
    grant.and_then(|grant| FencingToken::new(grant, 0)).ok_or_else(Failure::unexpected)
}

pub(crate) fn id_of(ticket: Ticket) -> ContenderId {
    ContenderId::new(ticket.to_string())
}

/// Reads the name of a contender of ours.
pub(crate) fn ticket_of(id: &ContenderId) -> Option<Ticket> {
    Ticket::parse(id.as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ending(word: &str) -> AnswerRow {
        AnswerRow { text: Some(word.to_owned()), ..AnswerRow::default() }
    }

    fn contender(ticket: u128, token: i64, place: f64) -> AnswerRow {
        AnswerRow {
            what: RowKind::Contender as i16,
            ticket: Some(ticket),
            number: Some(token),
            place: Some(place),
            mode: Some(1),
            ..AnswerRow::default()
        }
    }

    #[test]
    fn contenders_are_ordered_by_token_then_place_then_ticket() {
        let rows = [(4, 2, 0.0), (3, 1, 0.5), (2, 1, 0.0), (1, 1, 1.0), (0, 1, 0.5)];
        let rows =
            std::iter::once(ending("ok")).chain(rows.map(|(ticket, token, place)| contender(ticket, token, place)));
        let view = SqlAnswer::read(rows.collect()).and_then(|answer| answer.view(ConnectionNumber(7))).expect("a view");
        let order: Vec<_> =
            view.contenders.iter().map(|contender| contender.ticket.expect("a ticket").bits()).collect();
        assert_eq!(order, [2, 0, 3, 1, 4]);
    }

    #[test]
    fn the_contenders_of_all_locks_are_shown_by_lock_and_part_and_those_of_no_lock_are_passed_over() {
        let placed = |name: &[u8], part: i64, ticket: u128| AnswerRow {
            what: RowKind::Placed as i16,
            bytes: Some(name.to_vec()),
            epoch: Some(part),
            ..contender(ticket, i64::try_from(ticket).unwrap(), 0.0)
        };
        let rows = vec![
            ending("ok"),
            placed(b"b", 1, 1),
            placed(b"a", 0, 4),
            placed(b"b", 2, 3),
            placed(b"b", 2, 2),
            placed(b"\xff", 0, 5),
            placed(b"a", 9, 6),
        ];
        let locks = SqlAnswer::read(rows).and_then(|answer| answer.locks()).expect("they can be read");
        let bits =
            |infos: &Vec<Arc<ContenderInfo>>| infos.iter().filter_map(|info| info.ticket).map(Ticket::bits).collect();
        let shown: Vec<(_, Vec<_>)> = locks.iter().map(|(name, infos)| (name.as_str(), bits(infos))).collect();
        assert_eq!(shown, [("a", vec![4]), ("b", vec![2, 3, 1])]);
        let nameless = AnswerRow { bytes: None, ..placed(b"a", 0, 1) };
        assert!(SqlAnswer::read(vec![ending("ok"), nameless]).and_then(|answer| answer.locks()).is_err());
    }

    #[test]
    fn what_a_later_version_adds_is_passed_over_and_its_modes_exclude_all() {
        let strange = AnswerRow { what: 99, ..AnswerRow::default() };
        let later = AnswerRow { mode: Some(40), ..contender(1, 1, 0.0) };
        let answer = SqlAnswer::read(vec![ending("ok"), strange, later]).expect("an answer");
        let view = answer.view(ConnectionNumber(1)).expect("a view");
        assert_eq!((view.contenders.len(), view.contenders[0].mode), (1, Mode::Exclusive));
    }

    #[test]
    fn an_answer_without_a_status_or_a_needed_column_is_refused() {
        assert!(SqlAnswer::read(Vec::new()).is_err());
        assert!(SqlAnswer::read(vec![contender(1, 1, 0.0)]).is_err());
        assert!(SqlAnswer::read(vec![AnswerRow::default()]).is_err());
        for spoiled in [
            AnswerRow { ticket: None, ..contender(1, 1, 0.0) },
            AnswerRow { number: None, ..contender(1, 1, 0.0) },
            AnswerRow { number: Some(-1), ..contender(1, 1, 0.0) },
            AnswerRow { place: None, ..contender(1, 1, 0.0) },
            AnswerRow { mode: None, ..contender(1, 1, 0.0) },
        ] {
            let answer = SqlAnswer::read(vec![ending("ok"), spoiled]).expect("an answer");
            assert!(answer.view(ConnectionNumber(1)).is_err() && answer.infos().is_err());
        }
    }

    #[test]
    fn every_mode_is_read_back() {
        for mode in MODES {
            assert_eq!(mode_of(i16::from(mode_number(mode))), mode);
        }
    }

    proptest! {
        #[test]
        fn no_rows_make_it_panic(kinds in prop::collection::vec((-2_i16..17, any::<i64>(), any::<f64>()), 0..20)) {
            let row = |(what, number, place)| AnswerRow {
                what,
                ticket: Some(1),
                number: Some(number),
                place: Some(place),
                mode: Some(what),
                text: Some("ok".to_owned()),
                ..AnswerRow::default()
            };
            if let Ok(answer) = SqlAnswer::read(kinds.into_iter().map(row).collect()) {
                let _ = (answer.view(ConnectionNumber(1)), answer.infos(), answer.stored());
                let _ = (answer.value(), answer.names(), answer.locks(), answer.counts());
            }
        }
    }
}
