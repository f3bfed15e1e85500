//! Texts that all services store in one form: the record beside a contender for people to read, as compact JSON of one
//! line, its owner, and what it is asked; and the part of a lock in a key. No grant is decided by a record, and what
//! another program has written there is passed over.

use std::time::Duration;

use lockkeeper_core::{
    Answers, Caller, ContenderInfo, Entry, Flow, Lifetime, Owner, Part, ProcessId, Revocation, TicketHead,
};
use serde::{Deserialize, Serialize};

/// How much of each of the owner's words is stored, in bytes: a list of ten thousand contenders is read by people.
pub const WORD_BYTES_MAX: usize = 200;

/// How much of a reason is stored, in bytes: a sentence or two.
const REASON_BYTES_MAX: usize = 1_000;

/// What is known of a contender's owner, as it is stored.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Record {
    /// The owner's machine.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// What that executes.
    pub command: String,
    /// Milliseconds since 1970, by the owner's clock.
    pub since: u64,
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
    pub frozen: Option<String>,
    /// That it may not hear of a request to give up.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    may_ignore: bool,
}

impl Record {
    /// Describes an entry that is about to be made.
    #[must_use]
    pub fn of(entry: &Entry, since_unix: Duration) -> Self {
        let Caller { process, flow, within, may_ignore, .. } = entry.caller;
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
            may_ignore,
        }
    }

    /// Whether it says why it stands, as what freezes a lock does.
    #[must_use]
    pub const fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Fills in what is known of a contender.
    pub fn describe(self, info: &mut ContenderInfo) {
        info.owner = Some(Owner::new(self.host, self.pid, self.command));
        info.since_unix = Some(Duration::from_millis(self.since));
        info.frozen = self.frozen;
        info.caller.process = self.proc.as_deref().and_then(ProcessId::parse);
        info.caller.flow = self.flow.as_deref().and_then(Flow::parse);
        info.caller.within = self.within.as_deref().and_then(TicketHead::parse);
        info.caller.until_unix = self.until.and_then(Caller::until_of_ms);
        info.caller.may_ignore = self.may_ignore;
        info.answers = Answers::of(&info.caller);
    }

    /// Writes it.
    #[must_use]
    pub fn to_text(&self) -> String {
        json(self)
    }

    /// Reads what is stored.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// A request to give up, as it is stored.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Ask {
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    within_ms: Option<u64>,
}

impl Ask {
    /// Says what is asked.
    #[must_use]
    pub fn of(revocation: &Revocation) -> Self {
        let why = revocation.why.as_deref().map(|why| shortened(why, REASON_BYTES_MAX));
        Self { why, within_ms: revocation.within.map(millis) }
    }

    /// Returns what is asked.
    #[must_use]
    pub fn revocation(self) -> Revocation {
        Revocation::new(self.why, self.within_ms.map(Duration::from_millis))
    }

    /// Writes it.
    #[must_use]
    pub fn to_text(&self) -> String {
        json(self)
    }

    /// Reads what is stored.
    #[must_use]
    pub fn read(text: &str) -> Option<Revocation> {
        serde_json::from_str(text).ok().map(Self::revocation)
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings and numbers are JSON")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Cuts a text at a character's boundary.
#[must_use]
pub fn shortened(text: &str, bytes_max: usize) -> String {
    let end = (0..=bytes_max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    text[..end.unwrap_or(0)].to_owned()
}

/// How keys name a part of a lock.
#[must_use]
pub const fn part_letter(part: Part) -> &'static str {
    match part {
        Part::Line => "l",
        Part::Permits => "p",
        Part::Waiters => "g",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_core::{ContenderId, Mode, Ticket};

    use super::*;

    #[test]
    fn what_is_stored_of_an_entry_is_shown() {
        let owner = Arc::new(Owner::new("web-3", 4_121, "é".repeat(300)));
        let mut entry = Entry::new(Ticket::from_bits(1), Mode::Mutex, owner);
        entry.lifetime = Lifetime::Persistent { reason: "two\nlines".into() };
        let text = Record::of(&entry, Duration::from_millis(1_234)).to_text();
        assert!(!text.contains('\n'), "{text}");
        let mut info = ContenderInfo::new(ContenderId::new("one"), Mode::Mutex);
        let read = Record::read(&text).unwrap();
        assert!(read.is_frozen());
        read.describe(&mut info);
        assert_eq!(info.owner.map(|owner| (owner.pid, owner.command.len())), Some((4_121, 200)));
        assert_eq!((info.since_unix, info.frozen.as_deref()), (Some(Duration::from_millis(1_234)), Some("two\nlines")));
    }

    #[test]
    fn a_request_is_read_back() {
        let revocation = Revocation::new(Some("please\nnow".to_owned()), Some(Duration::from_millis(2_500)));
        let text = Ask::of(&revocation).to_text();
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(Ask::read(&text), Some(revocation));
    }

    #[test]
    fn what_another_program_has_written_is_passed_over() {
        for text in ["", "not JSON", "7", "{\"pid\":\"x\"}"] {
            assert_eq!(Record::read(text), None, "{text:?}");
        }
        assert_eq!(Ask::read("please"), None);
    }

    #[test]
    fn a_long_word_is_cut_between_two_characters() {
        assert_eq!((shortened("éé", 3), shortened("abc", 3)), ("é".to_owned(), "abc".to_owned()));
    }
}
