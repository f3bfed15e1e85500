//! Views and records as the scripts and the server show them, and plain locks of other clients in them.
//!
//! A record says where a contender stands, what it was asked to give up for, and what people and `show` want to know.
//! Only the first decides anything. With `layout=setnx` a view shows another client that has the plain lock first. Who
//! takes the plain lock, and when it is given back, the scripts know.

use std::time::Duration;

use lockkeeper_core::{Answers, ConnectionNumber, Contender, ContenderId, ContenderInfo, Mode, QueueView, Revocation};
use lockkeeper_session::{Ask, Failure, Record, shortened};
use redis::Value;

use crate::connection::{list, number, text};
use crate::layout::{QueueMember, mode_of};

/// Reads a view as the scripts answer it. What is no contender is passed over.
pub(crate) fn read(connection: ConnectionNumber, answer: Value) -> Result<QueueView, Failure> {
    read_with_foreigner(connection, answer).map(|(view, _)| view)
}

/// Reads a view, and of another client that it shows when its key ends.
pub(crate) fn read_with_foreigner(
    connection: ConnectionNumber,
    answer: Value,
) -> Result<(QueueView, Option<Foreigner>), Failure> {
    let mut answer = list(answer)?.into_iter();
    let mut next = || answer.next().ok_or_else(Failure::unexpected);
    let (omitted, elsewhere) = (number(&next()?)?, text(next()?)?);
    let (mut members, mut foreigner) = (Vec::with_capacity(answer.len()), None);
    for shown in answer {
        let shown = text(shown)?;
        members.extend(QueueMember::parse(&shown));
        foreigner = foreigner.or_else(|| Foreigner::read(&shown));
    }
    members.sort_unstable_by_key(|member| (member.place(), member.ticket));
    // It holds what our first contender waits for.
    let foreign = foreigner.iter().map(Foreigner::contender);
    let contenders: Vec<_> = foreign.chain(members.iter().map(QueueMember::contender)).collect();
    let mut view = QueueView::new(connection, contenders);
    view.omitted = usize::try_from(omitted).map_err(|_| Failure::unexpected())?;
    view.elsewhere = mode_of(&elsewhere);
    Ok((view, foreigner))
}

#[derive(Debug)]
pub(crate) struct StoredRecord<'a> {
    pub(crate) member: &'a str,
    revocation: &'a str,
    record: &'a str,
}

impl<'a> StoredRecord<'a> {
    /// Reads what the scripts write; what another program has written may be anything.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut lines = str::from_utf8(bytes).ok()?.splitn(3, '\n');
        let (place, revocation, record) = (lines.next()?, lines.next()?, lines.next()?);
        Some(Self { member: place.split(' ').nth(3)?, revocation, record })
    }

    pub(crate) fn revocation(&self) -> Option<Revocation> {
        Ask::read(self.revocation)
    }

    pub(crate) fn describe(&self, info: &mut ContenderInfo) {
        info.revocation = self.revocation();
        if let Some(record) = Record::read(self.record) {
            record.describe(info);
        }
    }
}

/// What the identity of another client begins with; that of a contender of ours begins with a digit.
const PREFIX: &str = "plain:";

/// What the scripts write before one in a view.
const MARK: char = '=';

/// How much of another client's value is shown, in bytes: it may be anything.
const LABEL_BYTES_MAX: usize = 200;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Foreigner {
    pub(crate) id: ContenderId,
    /// When its key ends if it does not renew it; `None` if that does not end.
    pub(crate) ends_in: Option<Duration>,
}

impl Foreigner {
    /// Reads it as a view has it; `None` if it is none.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (left_ms, digest) = text.strip_prefix(MARK)?.split_once(' ')?;
        let ends_in = left_ms.parse().ok().map(Duration::from_millis);
        Some(Self { id: ContenderId::new(format!("{PREFIX}{digest}")), ends_in })
    }

    pub(crate) fn contender(&self) -> Contender {
        Contender { id: self.id.clone(), ticket: None, mode: Mode::Mutex }
    }
}

pub(crate) fn is_foreign(id: &ContenderId) -> bool {
    id.as_str().starts_with(PREFIX)
}

/// Describes another client by what it has written into its key.
pub(crate) fn describe(contender: &Contender, value: Value) -> ContenderInfo {
    let mut info = ContenderInfo::new(contender.id.clone(), contender.mode);
    info.answers = Answers::No;
    if let Value::BulkString(bytes) = value {
        info.label = Some(shortened(&String::from_utf8_lossy(&bytes), LABEL_BYTES_MAX));
    }
    info
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_core::{Entry, Owner, Ticket};

    use super::*;

    fn described(bytes: &str) -> ContenderInfo {
        let mut info = ContenderInfo::new(ContenderId::new("one"), Mode::Mutex);
        StoredRecord::read(bytes.as_bytes()).expect("a record").describe(&mut info);
        info
    }

    #[test]
    fn what_is_stored_of_an_entry_is_shown() {
        let owner = Owner::new("web-3", 4_121, "backup.sh");
        let entry = Entry::new(Ticket::from_bits(1), Mode::Mutex, Arc::new(owner.clone()));
        let record = Record::of(&entry, Duration::from_millis(1_234)).to_text();
        let revocation = Revocation::new(Some("please\nnow".to_owned()), Some(Duration::from_secs(2)));
        let info = described(&format!("0000000001 l door member\n{}\n{record}", Ask::of(&revocation).to_text()));
        assert_eq!((info.owner, info.since_unix), (Some(owner), Some(Duration::from_millis(1_234))));
        assert_eq!(info.revocation, Some(revocation));
    }

    #[test]
    fn what_another_program_has_written_is_passed_over() {
        for bytes in ["", "a b c", "a b c d", "a b c\n\n", "a\nb"] {
            assert!(StoredRecord::read(bytes.as_bytes()).is_none(), "{bytes:?}");
        }
        let info = described("a b c d\nnot JSON\nnor this");
        assert!(info.owner.is_none() && info.revocation.is_none());
    }

    #[test]
    fn another_client_is_read_as_views_have_it() {
        let read = |text| Foreigner::read(text).map(|found| (found.id.to_string(), found.ends_in));
        assert_eq!(read("=1500 ab12"), Some(("plain:ab12".to_owned(), Some(Duration::from_millis(1_500)))));
        assert_eq!(read("=-1 ab12"), Some(("plain:ab12".to_owned(), None)));
        assert_eq!(read("00000000000001.000:m:1:-"), None);
        assert!(is_foreign(&ContenderId::new("plain:ab12")) && !is_foreign(&ContenderId::new("0001.000:m:1:-")));
    }

    #[test]
    fn a_long_value_is_cut_and_one_that_is_no_text_is_shown_all_the_same() {
        let contender = Foreigner::read("=1 ab").unwrap().contender();
        let label = |bytes: &[u8]| describe(&contender, Value::BulkString(bytes.to_vec())).label;
        assert_eq!(label("é".repeat(150).as_bytes()).unwrap().len(), LABEL_BYTES_MAX);
        assert_eq!(label(b"\xff").as_deref(), Some("\u{fffd}"));
        assert_eq!(describe(&contender, Value::Nil).label, None);
    }
}
