//! What our nodes say of whom they belong to: compact JSON, for people and for `show`.

use std::time::Duration;

use lockkeeper_core::{Owner, QueueName};
use serde::{Deserialize, Serialize};

/// The data of a contender's node.
#[derive(Deserialize, Serialize)]
struct ContenderData {
    host: String,
    pid: u32,
    command: String,
    /// Milliseconds since 1970, by the owner's clock.
    since: u64,
}

/// The data of the node of a queue whose name could not be its own.
#[derive(Deserialize, Serialize)]
struct QueueData {
    name: String,
}

/// How much of an owner's word is stored, in bytes: a list of ten thousand contenders is read by people.
const WORD_BYTES_MAX: usize = 200;

pub(super) fn contender_data(owner: &Owner, since_unix: Duration) -> Vec<u8> {
    let data = ContenderData {
        host: shortened(&owner.host),
        pid: owner.pid,
        command: shortened(&owner.command),
        since: u64::try_from(since_unix.as_millis()).unwrap_or(u64::MAX),
    };
    serde_json::to_vec(&data).expect("strings and numbers are JSON")
}

/// Reads the owner of a contender's node, and since when it has been there, if it is one of ours.
pub(super) fn read_contender_data(data: &[u8]) -> Option<(Owner, Duration)> {
    let ContenderData { host, pid, command, since } = serde_json::from_slice(data).ok()?;
    Some((Owner::new(host, pid, command), Duration::from_millis(since)))
}

/// The data of a queue's node: the true name where the encoded one has lost it, otherwise nothing.
pub(super) fn queue_data(queue: &QueueName) -> Vec<u8> {
    if !queue.is_digested() {
        return Vec::new();
    }
    serde_json::to_vec(&QueueData { name: queue.as_str().to_owned() }).expect("a string is JSON")
}

/// Reads the true name of a queue's node, if it is the name of that node.
pub(super) fn read_queue_data(data: &[u8], node: &str) -> Option<QueueName> {
    let QueueData { name } = serde_json::from_slice(data).ok()?;
    QueueName::new(&name).ok().filter(|name| name.encoded() == node)
}

fn shortened(word: &str) -> String {
    let end = (0..=WORD_BYTES_MAX.min(word.len())).rev().find(|&end| word.is_char_boundary(end)).unwrap_or(0);
    word[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_compact_json_and_read_back() {
        let owner = Owner::new("web-3", 4121, "backup.sh");
        let data = contender_data(&owner, Duration::from_millis(1_750_000_000_123));
        let text = r#"{"host":"web-3","pid":4121,"command":"backup.sh","since":1750000000123}"#;
        assert_eq!(std::str::from_utf8(&data).unwrap(), text);
        assert_eq!(read_contender_data(&data), Some((owner, Duration::from_millis(1_750_000_000_123))));
        assert_eq!(read_contender_data(b"127.0.0.1"), None);
        assert_eq!(read_contender_data(b"__REVOKE__"), None);
    }

    #[test]
    fn a_long_word_is_cut_between_characters() {
        let data = contender_data(&Owner::new("é".repeat(300), 1, ""), Duration::ZERO);
        assert_eq!(read_contender_data(&data).unwrap().0.host, "é".repeat(100));
    }

    #[test]
    fn a_queue_keeps_its_true_name_only_where_the_encoded_one_lost_it() {
        let short = QueueName::new("short").unwrap();
        assert!(queue_data(&short).is_empty());
        let long = QueueName::new(&"é".repeat(100)).unwrap();
        let data = queue_data(&long);
        assert_eq!(read_queue_data(&data, &long.encoded()), Some(long));
        assert_eq!(read_queue_data(&data, "another"), None);
    }
}
