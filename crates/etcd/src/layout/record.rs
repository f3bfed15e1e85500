//! The identity of a contender, and the record under its key.
//!
//! The identity is the end of the key and the revision at which the key was created: sessions use their keys again, and
//! so do other clients. The record is compact JSON: the ticket, and what people and `show` want to know. No grant is
//! decided by it.

use std::time::Duration;

use lockkeeper_core::{ContenderId, ContenderInfo, Entry, QueueName, Revocation, Ticket};
use lockkeeper_session::Ask;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct KeyRecord {
    ticket: String,
    #[serde(flatten)]
    owner: lockkeeper_session::Record,
    /// A request to its owner to give up.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoke: Option<Ask>,
    /// The lock's name, if it cannot be read from the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<String>,
}

impl KeyRecord {
    pub(crate) fn of(entry: &Entry, queue: &QueueName, since_unix: Duration) -> Self {
        Self {
            ticket: entry.ticket.to_string(),
            owner: lockkeeper_session::Record::of(entry, since_unix),
            revoke: None,
            lock: queue.is_digested().then(|| queue.as_str().to_owned()),
        }
    }

    /// Whether it freezes its lock: then it has a reason.
    pub(crate) const fn is_frozen(&self) -> bool {
        self.owner.is_frozen()
    }

    /// Reads the name of its lock, if that is stored with it.
    pub(crate) fn lock_name(&self) -> Option<QueueName> {
        QueueName::new(self.lock.as_deref()?).ok()
    }

    /// Reads what is stored; what another program has written may be anything.
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers are JSON")
    }

    /// Adds a request to give up; it replaces an earlier one.
    pub(crate) fn ask_to_yield(&mut self, revocation: &Revocation) {
        self.revoke = Some(Ask::of(revocation));
    }

    pub(crate) fn revocation(&self) -> Option<Revocation> {
        self.revoke.clone().map(Ask::revocation)
    }

    pub(crate) fn describe(&self, info: &mut ContenderInfo) {
        self.owner.clone().describe(info);
        info.revocation = self.revocation();
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ContenderIdentity<'a> {
    /// What stands behind the queue in its key.
    pub(super) text: &'a str,
    pub(super) created: i64,
}

impl<'a> ContenderIdentity<'a> {
    /// Reads an identity; `None` if no contender has it.
    pub(super) fn parse(id: &'a ContenderId) -> Option<Self> {
        let (text, created) = id.as_str().rsplit_once(':')?;
        let created = u64::from_str_radix(created, 16).ok()?.cast_signed();
        let identity = Self { text, created };
        (identity.id() == *id).then_some(identity)
    }

    pub(super) fn id(self) -> ContenderId {
        ContenderId::new(format!("{}:{:x}", self.text, self.created.cast_unsigned()))
    }
}

/// The part of a contender's record that looks at queues need.
#[derive(Deserialize)]
struct Ticketed<'a> {
    ticket: &'a str,
}

/// Reads the ticket from what is stored under a contender's key.
pub(crate) fn ticket_of(value: &[u8]) -> Option<Ticket> {
    Ticket::parse(serde_json::from_slice::<Ticketed<'_>>(value).ok()?.ticket)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_core::{Mode, Owner};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_known_of_a_contender_is_read_back() {
        let owner = Arc::new(Owner::new("web-3", 12, "backup.sh"));
        let entry = Entry::new(Ticket::from_bits(1), Mode::Mutex, owner.clone());
        let queue = QueueName::new("door").unwrap();
        let mut record = KeyRecord::of(&entry, &queue, Duration::from_millis(1_234));
        let revocation = Revocation::new(Some("please".to_owned()), Some(Duration::from_millis(2_500)));
        record.ask_to_yield(&revocation);
        let bytes = record.to_bytes();
        assert!(bytes.starts_with(br#"{"ticket":"#), "what is behind the ticket is for people");
        let read = KeyRecord::read(&bytes).unwrap();
        assert_eq!(read, record);
        let mut info = ContenderInfo::new(ContenderId::new("x"), Mode::Mutex);
        read.describe(&mut info);
        assert_eq!((info.revocation, info.since_unix), (Some(revocation), Some(Duration::from_millis(1_234))));
        assert_eq!(info.owner.as_ref(), Some(&*owner));
        assert!(KeyRecord::read(b"no JSON").is_none());
    }

    #[test]
    fn an_identity_without_a_revision_is_that_of_no_contender() {
        for id in ["", "m/1", "m/1:", "m/1:x", "m/1:07", "m/1:+7", ":"] {
            assert_eq!(ContenderIdentity::parse(&ContenderId::new(id)), None, "{id:?}");
        }
    }

    #[test]
    fn a_ticket_is_read_from_a_record_and_from_nothing_else() {
        let ticket = Ticket::from_bits(0xab);
        assert_eq!(ticket_of(format!(r#"{{"ticket":"{ticket}","host":"h"}}"#).as_bytes()), Some(ticket));
        for value in ["", "{}", "7", r#"{"ticket":7}"#, r#"{"ticket":"7"}"#] {
            assert_eq!(ticket_of(value.as_bytes()), None, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn every_identity_is_read_back(text in "\\PC{0,30}", created in 0..i64::MAX) {
            let identity = ContenderIdentity { text: &text, created };
            let id = identity.id();
            prop_assert_eq!(ContenderIdentity::parse(&id), Some(identity));
        }
    }
}
