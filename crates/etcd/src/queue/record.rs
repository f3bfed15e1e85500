//! What is stored under a contender's key, as compact JSON: its ticket, and what people and `show` want to know. No
//! grant is decided by it.

use std::time::Duration;

use lockkeeper_core::{
    Answers, Caller, ContenderInfo, Entry, Flow, Lifetime, Owner, ProcessId, QueueName, Revocation, TicketHead,
};
use serde::{Deserialize, Serialize};

/// How much of each of the owner's words is stored, in bytes: a list of ten thousand contenders is read by people.
const WORD_BYTES_MAX: usize = 200;

/// How much of a reason is stored, in bytes: a sentence or two.
const REASON_BYTES_MAX: usize = 1_000;

/// A contender, as it is stored.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Record {
    ticket: String,
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
    /// That its owner is asked to give up.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoke: Option<Revoke>,
    /// The lock's name, if it cannot be read from the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lock: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
struct Revoke {
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    within_ms: Option<u64>,
}

impl Record {
    /// Describes an entry that is about to be made.
    pub(super) fn of(entry: &Entry, queue: &QueueName, since_unix: Duration) -> Self {
        let Caller { process, flow, within, .. } = entry.caller;
        let frozen = match &entry.lifetime {
            Lifetime::Session => None,
            Lifetime::Persistent { reason } => Some(shortened(reason, REASON_BYTES_MAX)),
        };
        Self {
            ticket: entry.ticket.to_string(),
            host: shortened(&entry.owner.host, WORD_BYTES_MAX),
            pid: entry.owner.pid,
            command: shortened(&entry.owner.command, WORD_BYTES_MAX),
            since: millis(since_unix),
            proc: process.map(|process| process.to_string()),
            flow: flow.map(|flow| flow.to_string()),
            within: within.map(|within| within.to_string()),
            until: entry.caller.until_ms(),
            frozen,
            revoke: None,
            lock: queue.is_digested().then(|| queue.as_str().to_owned()),
        }
    }

    /// Whether it says why it stands, as what freezes a lock does.
    pub(super) const fn is_frozen(&self) -> bool {
        self.frozen.is_some()
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
        self.revoke = Some(Revoke {
            why: revocation.why.as_deref().map(|why| shortened(why, REASON_BYTES_MAX)),
            within_ms: revocation.within.map(millis),
        });
    }

    /// Returns the request to give up, if there is one.
    pub(super) fn revocation(&self) -> Option<Revocation> {
        let Revoke { why, within_ms } = self.revoke.clone()?;
        Some(Revocation::new(why, within_ms.map(Duration::from_millis)))
    }

    /// Fills in what is known of a contender.
    pub(super) fn describe(&self, info: &mut ContenderInfo) {
        info.owner = Some(Owner::new(self.host.as_str(), self.pid, self.command.as_str()));
        info.answers = Answers::Yes;
        info.since_unix = Some(Duration::from_millis(self.since));
        info.frozen.clone_from(&self.frozen);
        info.revocation = self.revocation();
        info.caller.process = self.proc.as_deref().and_then(ProcessId::parse);
        info.caller.flow = self.flow.as_deref().and_then(Flow::parse);
        info.caller.within = self.within.as_deref().and_then(TicketHead::parse);
        info.caller.until_unix = self.until.and_then(Caller::until_of_ms);
    }
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

    #[test]
    fn what_is_known_of_a_contender_is_read_back() {
        let owner = Arc::new(Owner::new("web-3", 12, "é".repeat(300)));
        let entry = Entry::new(Ticket::from_bits(1), Mode::Mutex, owner);
        let queue = QueueName::new("door").unwrap();
        let mut record = Record::of(&entry, &queue, Duration::from_millis(1_234));
        let revocation = Revocation::new(Some("please".to_owned()), Some(Duration::from_millis(2_500)));
        record.ask_to_yield(&revocation);
        let read = Record::read(&record.to_bytes()).unwrap();
        assert_eq!(read, record);
        let mut info = ContenderInfo::new(ContenderId::new("x"), Mode::Mutex);
        read.describe(&mut info);
        assert_eq!((info.revocation, info.since_unix), (Some(revocation), Some(Duration::from_millis(1_234))));
        assert_eq!(info.owner.map(|owner| (owner.pid, owner.command.len())), Some((12, 200)));
        assert!(Record::read(b"no JSON").is_none());
    }
}
