//! What is stored beside a contender for people to read: its owner, as one line of JSON, and what it is asked. Nothing
//! is decided by it, and what another program has written there is passed over. Pure.

use std::time::Duration;

use lockkeeper_core::{
    Answers, Caller, ContenderInfo, Entry, Flow, Lifetime, Owner, ProcessId, Revocation, TicketHead,
};
use serde::{Deserialize, Serialize};

/// How much of each of the owner's words is stored, in bytes: a list of ten thousand contenders is read by people.
const WORD_BYTES_MAX: usize = 200;

/// How much of a reason is stored, in bytes: a sentence or two.
const REASON_BYTES_MAX: usize = 1_000;

/// A contender's owner, as it is stored.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
struct Record {
    host: String,
    pid: u32,
    command: String,
    /// Milliseconds since 1970, by the owner's clock.
    since: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    proc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<String>,
    /// Milliseconds since 1970, by the caller's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
    /// Why the lock is frozen, if this contender freezes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    frozen: Option<String>,
}

/// A request to give up, as it is stored.
#[derive(Debug, Deserialize, Serialize)]
struct Ask {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    within_ms: Option<u64>,
}

/// Writes the records of the entries of one join: a line for all if they are the same, else a line each.
pub(super) fn texts(entries: &[Entry], since_unix: Duration) -> String {
    let mut lines: Vec<_> = entries.iter().map(|entry| text(entry, since_unix)).collect();
    lines.dedup();
    if lines.len() > 1 {
        lines = entries.iter().map(|entry| text(entry, since_unix)).collect();
    }
    lines.join("\n")
}

/// Writes the record of an entry that is about to be made. JSON has no line break within.
fn text(entry: &Entry, since_unix: Duration) -> String {
    let Caller { process, flow, within, .. } = entry.caller;
    let frozen = match &entry.lifetime {
        Lifetime::Session => None,
        Lifetime::Persistent { reason } => Some(shortened(reason, REASON_BYTES_MAX)),
    };
    let record = Record {
        host: shortened(&entry.owner.host, WORD_BYTES_MAX),
        pid: entry.owner.pid,
        command: shortened(&entry.owner.command, WORD_BYTES_MAX),
        since: millis(since_unix),
        proc: process.map(|process| process.to_string()),
        flow: flow.map(|flow| flow.to_string()),
        within: within.map(|within| within.to_string()),
        until: entry.caller.until_ms(),
        frozen,
    };
    serde_json::to_string(&record).expect("strings and numbers are JSON")
}

/// Fills in what the record says of a contender.
pub(super) fn describe(text: &str, info: &mut ContenderInfo) {
    let Ok(record) = serde_json::from_str::<Record>(text) else { return };
    info.owner = Some(Owner::new(record.host, record.pid, record.command));
    info.answers = Answers::Yes;
    info.since_unix = Some(Duration::from_millis(record.since));
    info.frozen = record.frozen;
    info.caller.process = record.proc.as_deref().and_then(ProcessId::parse);
    info.caller.flow = record.flow.as_deref().and_then(Flow::parse);
    info.caller.within = record.within.as_deref().and_then(TicketHead::parse);
    info.caller.until_unix = record.until.and_then(Caller::until_of_ms);
}

/// Writes a request to give up.
pub(super) fn request_text(revocation: &Revocation) -> String {
    let why = revocation.why.as_deref().map(|why| shortened(why, REASON_BYTES_MAX));
    let ask = Ask { why, within_ms: revocation.within.map(millis) };
    serde_json::to_string(&ask).expect("strings and numbers are JSON")
}

/// Reads a request to give up.
pub(super) fn read_request(text: &str) -> Option<Revocation> {
    let Ask { why, within_ms } = serde_json::from_str(text).ok()?;
    Some(Revocation::new(why, within_ms.map(Duration::from_millis)))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Cuts a text at a character's boundary.
fn shortened(text: &str, bytes_max: usize) -> String {
    let end = (0..=bytes_max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    text[..end.unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_core::{ContenderId, Mode, Ticket};

    use super::*;

    fn entry(command: &str) -> Entry {
        Entry::new(Ticket::from_bits(1), Mode::Mutex, Arc::new(Owner::new("web-3", 4_121, command)))
    }

    #[test]
    fn what_is_stored_of_an_entry_is_shown() {
        let mut entry = entry("backup.sh");
        entry.lifetime = Lifetime::Persistent { reason: "two\nlines".into() };
        let text = texts(std::slice::from_ref(&entry), Duration::from_millis(1_234));
        assert!(!text.contains('\n'), "{text}");
        let mut info = ContenderInfo::new(ContenderId::new("one"), Mode::Mutex);
        describe(&text, &mut info);
        assert_eq!((info.owner.as_ref(), info.since_unix), (Some(&*entry.owner), Some(Duration::from_millis(1_234))));
        assert_eq!(info.frozen.as_deref(), Some("two\nlines"));
        let revocation = Revocation::new(Some("please\nnow".to_owned()), Some(Duration::from_secs(2)));
        assert_eq!(read_request(&request_text(&revocation)), Some(revocation));
    }

    #[test]
    fn equal_records_are_sent_once_and_others_one_by_one() {
        let lines = |entries: &[Entry]| texts(entries, Duration::ZERO).lines().count();
        assert_eq!(lines(&[entry("a"), entry("a"), entry("a")]), 1);
        assert_eq!(lines(&[entry("a"), entry("a"), entry("b")]), 3);
    }

    #[test]
    fn what_another_program_has_written_is_passed_over() {
        for text in ["", "not JSON", "7", "{\"pid\":\"x\"}"] {
            let mut info = ContenderInfo::new(ContenderId::new("one"), Mode::Mutex);
            describe(text, &mut info);
            assert!(info.owner.is_none(), "{text:?}");
        }
        assert_eq!(read_request("please"), None);
    }

    #[test]
    fn a_long_word_is_cut_between_two_characters() {
        assert_eq!((shortened("éé", 3), shortened("abc", 3)), ("é".to_owned(), "abc".to_owned()));
    }
}
