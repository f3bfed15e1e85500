//! The identity of a contender: the end of its key, and the revision at which the key was created. A key alone can be
//! that of another contender by now: sessions use their keys again, and so do other clients.

use lockkeeper_core::{ContenderId, Ticket};
use serde::Deserialize;

/// What a contender's identity says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Identity<'a> {
    /// What stands behind the queue in its key.
    pub(super) text: &'a str,
    /// The revision at which the key was created.
    pub(super) created: i64,
}

impl<'a> Identity<'a> {
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

/// What is read of a contender's record where queues are looked at.
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_identity_without_a_revision_is_that_of_no_contender() {
        for id in ["", "m/1", "m/1:", "m/1:x", "m/1:07", "m/1:+7", ":"] {
            assert_eq!(Identity::parse(&ContenderId::new(id)), None, "{id:?}");
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
            let identity = Identity { text: &text, created };
            let id = identity.id();
            prop_assert_eq!(Identity::parse(&id), Some(identity));
        }
    }
}
