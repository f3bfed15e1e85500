//! What is stored of a contender: where it stands, what it was asked to give up for, and, as compact JSON, what people
//! and `show` want to know. Only the first decides anything.

use std::time::Duration;

use lockkeeper_core::{
    Answers, Caller, ContenderInfo, Entry, Flow, Lifetime, Owner, ProcessId, Revocation, TicketHead,
};
use serde::{Deserialize, Serialize};

/// How much of each of the owner's words is stored, in bytes: a list of ten thousand contenders is read by people.
const WORD_BYTES_MAX: usize = 200;

/// How much of a reason is stored, in bytes: a sentence or two.
const REASON_BYTES_MAX: usize = 1_000;

/// What is known of a contender's owner, as it is stored.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Record {
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
struct Revoke {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    within_ms: Option<u64>,
}

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
        let Revoke { why, within_ms } = serde_json::from_str(self.revocation).ok()?;
        Some(Revocation::new(why, within_ms.map(Duration::from_millis)))
    }

    /// Fills in what is known of the contender.
    pub(super) fn describe(&self, info: &mut ContenderInfo) {
        info.revocation = self.revocation();
        let Ok(record) = serde_json::from_str::<Record>(self.record) else {
            return;
        };
        info.owner = Some(Owner::new(record.host, record.pid, record.command));
        info.answers = Answers::Yes;
        info.since_unix = Some(Duration::from_millis(record.since));
        info.frozen = record.frozen;
        info.caller.process = record.proc.as_deref().and_then(ProcessId::parse);
        info.caller.flow = record.flow.as_deref().and_then(Flow::parse);
        info.caller.within = record.within.as_deref().and_then(TicketHead::parse);
        info.caller.until_unix = record.until.and_then(Caller::until_of_ms);
    }
}

impl Record {
    /// Describes an entry that is about to be made.
    pub(super) fn of(entry: &Entry, since_unix: Duration) -> Self {
        let Caller { process, flow, within, .. } = entry.caller;
        let frozen = match &entry.lifetime {
            Lifetime::Session => None,
            Lifetime::Persistent { reason } => Some(shortened(reason, REASON_BYTES_MAX)),
        };
        Self {
            host: shortened(&entry.owner.host, WORD_BYTES_MAX),
            pid: entry.owner.pid,
            command: shortened(&entry.owner.command, WORD_BYTES_MAX),
            since: millis(since_unix),
            proc: process.map(|process| process.to_string()),
            flow: flow.map(|flow| flow.to_string()),
            within: within.map(|within| within.to_string()),
            until: entry.caller.until_ms(),
            frozen,
        }
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers are JSON")
    }
}

/// Writes a request to give up, as one line.
pub(super) fn request_text(revocation: &Revocation) -> String {
    let why = revocation.why.as_deref().map(|why| shortened(why, REASON_BYTES_MAX));
    let revoke = Revoke { why, within_ms: revocation.within.map(millis) };
    serde_json::to_string(&revoke).expect("strings and numbers are JSON")
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

    fn described(bytes: &str) -> ContenderInfo {
        let mut info = ContenderInfo::new(ContenderId::new("one"), Mode::Mutex);
        Stored::read(bytes.as_bytes()).expect("a record").describe(&mut info);
        info
    }

    #[test]
    fn what_is_stored_of_an_entry_is_shown() {
        let owner = Owner::new("web-3", 4_121, "backup.sh");
        let lifetime = Lifetime::Persistent { reason: "two\nlines".into() };
        let mut entry = Entry::new(Ticket::from_bits(1), Mode::Mutex, Arc::new(owner.clone()));
        entry.lifetime = lifetime;
        let record = Record::of(&entry, Duration::from_millis(1_234)).to_text();
        let revocation = Revocation::new(Some("please\nnow".to_owned()), Some(Duration::from_secs(2)));
        let info = described(&format!("0000000001 l door member\n{}\n{record}", request_text(&revocation)));
        assert_eq!((info.owner, info.since_unix), (Some(owner), Some(Duration::from_millis(1_234))));
        assert_eq!((info.frozen.as_deref(), info.revocation), (Some("two\nlines"), Some(revocation)));
    }

    #[test]
    fn what_another_program_has_written_is_passed_over() {
        for bytes in ["", "a b c", "a b c d", "a b c\n\n", "a\nb"] {
            assert!(Stored::read(bytes.as_bytes()).is_none(), "{bytes:?}");
        }
        let info = described("a b c d\nnot JSON\nnor this");
        assert!(info.owner.is_none() && info.revocation.is_none());
    }

    #[test]
    fn a_long_word_is_cut_between_two_characters() {
        assert_eq!(shortened("éé", 3), "é");
        assert_eq!(shortened("abc", 3), "abc");
    }
}
