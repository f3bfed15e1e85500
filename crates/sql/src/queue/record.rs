//! The record beside the contenders of one join for people to read.

use std::time::Duration;

use lockkeeper_core::Entry;
use lockkeeper_session::Record;

/// Writes the records of the entries of one join: a line for all if they are the same, else a line each.
pub(super) fn texts(entries: &[Entry], since_unix: Duration) -> String {
    let mut lines: Vec<_> = entries.iter().map(|entry| Record::of(entry, since_unix).to_text()).collect();
    lines.dedup();
    if lines.len() > 1 {
        lines = entries.iter().map(|entry| Record::of(entry, since_unix).to_text()).collect();
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_core::{Mode, Owner, Ticket};

    use super::*;

    #[test]
    fn equal_records_are_sent_once_and_others_one_by_one() {
        let entry = |command: &str| {
            Entry::new(Ticket::from_bits(1), Mode::Mutex, Arc::new(Owner::new("web-3", 4_121, command)))
        };
        let lines = |entries: &[Entry]| texts(entries, Duration::ZERO).lines().count();
        assert_eq!(lines(&[entry("a"), entry("a"), entry("a")]), 1);
        assert_eq!(lines(&[entry("a"), entry("a"), entry("b")]), 3);
    }
}
