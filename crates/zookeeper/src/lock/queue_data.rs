//! The data of a queue's own node: its value, and our notes.
//!
//! A value is stored as it is, so that counts and barriers of other clients are the same as ours. It is wrapped only
//! where that would lose something: the lock's name where the node's name has lost it, or a value that looks like a
//! note of ours.

use lockkeeper_core::QueueName;
use lockkeeper_session::{from_hexadecimal, to_hexadecimal};
use serde::{Deserialize, Serialize};

/// How many names of broken contenders are remembered in a queue's node: enough for the owners to learn of it.
const BROKEN_MAX: usize = 16;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum QueueData {
    /// Notes of ours, and perhaps a value among them.
    Notes(QueueNotes),
    Value(Vec<u8>),
}

/// Our own form: JSON that has these members and no others.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueNotes {
    /// The lock's name, where the node's own name has lost it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    broken: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

impl QueueData {
    /// Reads the data of a queue's node. No data is no notes.
    pub(super) fn read(data: &[u8]) -> Self {
        if data.is_empty() {
            return Self::Notes(QueueNotes::default());
        }
        match serde_json::from_slice(data) {
            Ok(notes) => Self::Notes(notes),
            Err(_) => Self::Value(data.to_vec()),
        }
    }

    pub(super) fn value(&self) -> Option<Vec<u8>> {
        match self {
            Self::Notes(notes) => notes.value.as_deref().and_then(from_hexadecimal),
            Self::Value(value) => Some(value.clone()),
        }
    }

    /// Notes that a contender was broken; `None` if the value has another client's form, which leaves no room for
    /// notes.
    pub(super) fn with_broken(&self, contender: &str) -> Option<Vec<u8>> {
        let Self::Notes(notes) = self else {
            return None;
        };
        let mut notes = notes.clone();
        notes.broken.push(contender.to_owned());
        let surplus = notes.broken.len().saturating_sub(BROKEN_MAX);
        notes.broken.drain(..surplus);
        Some(notes.to_bytes())
    }

    pub(super) fn is_broken(&self, contender: &str) -> bool {
        matches!(self, Self::Notes(notes) if notes.broken.iter().any(|broken| broken == contender))
    }

    /// The data with another value, or without one.
    pub(super) fn with_value(&self, queue: &QueueName, value: Option<&[u8]>) -> Vec<u8> {
        let kept = match self {
            Self::Notes(notes) => QueueNotes { value: None, ..notes.clone() },
            Self::Value(_) => QueueNotes::default(),
        };
        let kept = QueueNotes { name: stored_name(queue).or(kept.name), ..kept };
        match value {
            None => kept.to_bytes(),
            Some(value) if kept.name.is_none() && matches!(Self::read(value), Self::Value(_)) => value.to_vec(),
            Some(value) => QueueNotes { value: Some(to_hexadecimal(value)), ..kept }.to_bytes(),
        }
    }

    /// Reads the true name of a queue's node, if it is the name of that node.
    pub(super) fn name(&self, node: &str) -> Option<QueueName> {
        let Self::Notes(notes) = self else {
            return None;
        };
        QueueName::new(notes.name.as_deref()?).ok().filter(|name| name.encoded() == node)
    }
}

impl QueueNotes {
    /// The data for a node; none if there is nothing to note.
    fn to_bytes(&self) -> Vec<u8> {
        if *self == Self::default() {
            return Vec::new();
        }
        serde_json::to_vec(self).expect("strings are JSON")
    }
}

/// The data of a queue's node when it is made: the true name where the encoded one has lost it, otherwise nothing.
pub(super) fn initial(queue: &QueueName) -> Vec<u8> {
    QueueNotes { name: stored_name(queue), ..QueueNotes::default() }.to_bytes()
}

/// The name to be stored with a queue's node; none for a node whose path is the name.
fn stored_name(queue: &QueueName) -> Option<String> {
    (!queue.as_str().starts_with('/') && queue.is_digested()).then(|| queue.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn short() -> QueueName {
        QueueName::new("short").unwrap()
    }

    fn long() -> QueueName {
        QueueName::new(&"é".repeat(100)).unwrap()
    }

    #[test]
    fn a_queue_keeps_its_true_name_only_where_the_encoded_one_lost_it() {
        assert!(initial(&short()).is_empty());
        let data = QueueData::read(&initial(&long()));
        assert_eq!(data.name(&long().encoded()), Some(long()));
        assert_eq!(data.name("another"), None);
        assert_eq!(data.value(), None);
        assert!(initial(&QueueName::new(&format!("/{}", "é".repeat(99))).unwrap()).is_empty(), "its path is its name");
    }

    #[test]
    fn a_value_is_stored_as_it_is_unless_something_would_be_lost() {
        let empty = QueueData::read(b"");
        assert_eq!(empty.with_value(&short(), Some(b"5")), b"5");
        assert_eq!(empty.with_value(&short(), Some(&[0, 0, 0, 5])), [0, 0, 0, 5], "as Curator's SharedCount has it");
        assert_eq!(empty.with_value(&short(), Some(b"")), br#"{"value":""}"#, "an empty value is a value");
        let named = QueueData::read(&initial(&long()));
        let written = QueueData::read(&named.with_value(&long(), Some(b"5")));
        assert_eq!((written.value(), written.name(&long().encoded())), (Some(b"5".to_vec()), Some(long())));
        let removed = QueueData::read(&written.with_value(&long(), None));
        assert_eq!((removed.value(), removed.name(&long().encoded())), (None, Some(long())));
    }

    #[test]
    fn the_last_contenders_that_were_broken_are_remembered_beside_the_name() {
        let mut data = QueueData::read(&initial(&long()));
        for number in 0..20 {
            data = QueueData::read(&data.with_broken(&format!("node-{number}")).unwrap());
        }
        assert!(data.is_broken("node-19") && data.is_broken("node-4") && !data.is_broken("node-3"));
        assert_eq!(data.name(&long().encoded()), Some(long()));
        assert_eq!(data.value(), None);
        assert_eq!(QueueData::read(b"5").with_broken("node-1"), None, "a value of another form is left alone");
    }

    proptest! {
        #[test]
        fn every_value_is_read_back(value: Vec<u8>, is_long: bool, looks_like_notes: bool) {
            let queue = if is_long { long() } else { short() };
            let value = if looks_like_notes { br#"{"broken":["x"]}"#.to_vec() } else { value };
            let before = QueueData::read(&initial(&queue));
            let after = QueueData::read(&before.with_value(&queue, Some(&value)));
            prop_assert_eq!(after.value(), Some(value));
        }
    }
}
