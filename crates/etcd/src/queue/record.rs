//! The record under a contender's key, as compact JSON: its ticket, and what people and `show` want to know. No grant
//! is decided by it.

use std::time::Duration;

use lockkeeper_core::{ContenderInfo, Entry, QueueName, Revocation};
use lockkeeper_session::Ask;
use serde::{Deserialize, Serialize};

/// A contender, as it is stored.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Record {
    ticket: String,
    #[serde(flatten)]
    owner: lockkeeper_session::Record,
    /// That its owner is asked to give up.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoke: Option<Ask>,
    /// The lock's name, if it cannot be read from the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lock: Option<String>,
}

impl Record {
    /// Describes an entry that is about to be made.
    pub(super) fn of(entry: &Entry, queue: &QueueName, since_unix: Duration) -> Self {
        Self {
            ticket: entry.ticket.to_string(),
            owner: lockkeeper_session::Record::of(entry, since_unix),
            revoke: None,
            lock: queue.is_digested().then(|| queue.as_str().to_owned()),
        }
    }

    /// Whether it says why it stands, as what freezes a lock does.
    pub(super) const fn is_frozen(&self) -> bool {
        self.owner.is_frozen()
    }

    /// Reads the name of its lock, if that is stored with it.
    pub(super) fn lock_name(&self) -> Option<QueueName> {
        QueueName::new(self.lock.as_deref()?).ok()
    }

    /// Reads what is stored; what another program has written may be anything.
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers are JSON")
    }

    /// Adds a request to give up; it replaces an earlier one.
    pub(super) fn ask_to_yield(&mut self, revocation: &Revocation) {
        self.revoke = Some(Ask::of(revocation));
    }

    /// Returns the request to give up, if there is one.
    pub(super) fn revocation(&self) -> Option<Revocation> {
        self.revoke.clone().map(Ask::revocation)
    }

    /// Fills in what is known of a contender.
    pub(super) fn describe(&self, info: &mut ContenderInfo) {
        self.owner.clone().describe(info);
        info.revocation = self.revocation();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use lockkeeper_core::{ContenderId, Mode, Owner, Ticket};

    use super::*;

    #[test]
    fn what_is_known_of_a_contender_is_read_back() {
        let owner = Arc::new(Owner::new("web-3", 12, "backup.sh"));
        let entry = Entry::new(Ticket::from_bits(1), Mode::Mutex, owner.clone());
        let queue = QueueName::new("door").unwrap();
        let mut record = Record::of(&entry, &queue, Duration::from_millis(1_234));
        let revocation = Revocation::new(Some("please".to_owned()), Some(Duration::from_millis(2_500)));
        record.ask_to_yield(&revocation);
        let bytes = record.to_bytes();
        assert!(bytes.starts_with(br#"{"ticket":"#), "what is behind the ticket is for people");
        let read = Record::read(&bytes).unwrap();
        assert_eq!(read, record);
        let mut info = ContenderInfo::new(ContenderId::new("x"), Mode::Mutex);
        read.describe(&mut info);
        assert_eq!((info.revocation, info.since_unix), (Some(revocation), Some(Duration::from_millis(1_234))));
        assert_eq!(info.owner.as_ref(), Some(&*owner));
        assert!(Record::read(b"no JSON").is_none());
    }
}
