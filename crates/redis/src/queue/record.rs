//! The record of a contender: where it stands, what it was asked to give up for, and what people and `show` want to
//! know. Only the first decides anything.

use lockkeeper_core::{ContenderInfo, Revocation};
use lockkeeper_session::{Ask, Record};

/// A contender's whole record, as it was read.
#[derive(Debug)]
pub(super) struct Stored<'a> {
    /// Its name in its queue.
    pub(super) member: &'a str,
    revocation: &'a str,
    record: &'a str,
}

impl<'a> Stored<'a> {
    /// Reads what the scripts write; what another program has written may be anything.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut lines = str::from_utf8(bytes).ok()?.splitn(3, '\n');
        let (place, revocation, record) = (lines.next()?, lines.next()?, lines.next()?);
        Some(Self { member: place.split(' ').nth(3)?, revocation, record })
    }

    /// Returns the request to give up, if there is one.
    pub(super) fn revocation(&self) -> Option<Revocation> {
        Ask::read(self.revocation)
    }

    /// Fills in what is known of the contender.
    pub(super) fn describe(&self, info: &mut ContenderInfo) {
        info.revocation = self.revocation();
        if let Some(record) = Record::read(self.record) {
            record.describe(info);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use lockkeeper_core::{ContenderId, Entry, Mode, Owner, Ticket};

    use super::*;

    fn described(bytes: &str) -> ContenderInfo {
        let mut info = ContenderInfo::new(ContenderId::new("one"), Mode::Mutex);
        Stored::read(bytes.as_bytes()).expect("a record").describe(&mut info);
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
            assert!(Stored::read(bytes.as_bytes()).is_none(), "{bytes:?}");
        }
        let info = described("a b c d\nnot JSON\nnor this");
        assert!(info.owner.is_none() && info.revocation.is_none());
    }
}
