//! The lines that keep the history over a restart: those of `lockkeeper::history`, so that `lockkeeper verify` reads
//! them, with more fields. Who writes and reads the files is the monitor.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use lockkeeper::{ContenderInfo, FencingToken, Mode, QueueName};
use serde::{Deserialize, Serialize};

use super::hold::{BlindGap, PastEnd};
use super::records::{PlaceRecord, QueueRecord, named, whole_ms};
use super::steps::UnwrittenSteps;

/// How many bytes wait to be written at most: some seconds of a busy service, while a disk stands still.
const UNWRITTEN_BYTES_MAX: usize = 16 << 20;

/// What is kept over a restart, and what was kept before it.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptHistory {
    /// Whose times these are, if a history is kept: `lockkeeper verify` compares those of one machine exactly.
    pub(super) machine: Option<String>,
    pub(super) unwritten: String,
    pub(super) steps: UnwrittenSteps,
    pub(super) left_out: u64,
    /// The holds of before the restart that have no end in the files, until all locks were seen.
    pub(super) open: HashMap<HoldKey, OpenHold>,
    /// When a hold of before the restart began that has gone on over it.
    pub(super) resumed: HashMap<HoldKey, u64>,
    /// The freezes of before the restart that have no end in the files, until all locks were seen.
    pub(super) frozen: BTreeMap<HoldKey, OpenFreeze>,
    /// The locks that contenders waited for before the restart, until they were seen.
    pub(super) queued: BTreeSet<QueueName>,
    /// When the last line of before the restart was written.
    pub(super) last_ms: Option<u64>,
}

/// A lock, and the identity of a contender in it.
pub(super) type HoldKey = (String, String);

#[derive(Clone, Debug)]
pub(super) struct OpenHold {
    pub(super) from_ms: u64,
    pub(super) host: String,
    pub(super) program: String,
    pub(super) pid: u32,
    pub(super) mode: Mode,
    pub(super) token: Option<FencingToken>,
}

/// A contender that freezes a lock.
#[derive(Clone, Debug)]
pub(super) struct OpenFreeze {
    pub(super) host: String,
    pub(super) program: String,
    pub(super) pid: u32,
}

/// A line; what another version has written besides is passed over.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct KeptLine<'a> {
    #[serde(borrow)]
    pub(super) boot: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) process: Cow<'a, str>,
    pub(super) at_ns: u64,
    pub(super) unix_ms: u64,
    #[serde(borrow)]
    pub(super) lock: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) event: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) mode: &'a str,
    #[serde(borrow)]
    pub(super) token: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) reason: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) late_ns: u64,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub(super) host: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub(super) program: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_zero_count")]
    pub(super) pid: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) ended: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from_unix_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waited_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from_slack_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until_slack_ms: Option<u64>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) missed: u64,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    pub(super) what: Cow<'a, str>,
    #[serde(skip_serializing_if = "is_zero_count")]
    pub(super) longest: u32,
    #[serde(skip_serializing_if = "is_zero_count")]
    pub(super) waiting: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it")]
const fn is_zero_count(number: &u32) -> bool {
    *number == 0
}

fn is_empty(text: &str) -> bool {
    text.is_empty()
}

impl<'a> KeptLine<'a> {
    pub(super) fn new(machine: &'a str, event: &'a str, at_ms: u64) -> Self {
        let (boot, event) = (Cow::Borrowed(machine), Cow::Borrowed(event));
        Self { boot, event, at_ns: at_ms.saturating_mul(1_000_000), unix_ms: at_ms, ..Self::default() }
    }

    pub(super) fn of(
        self,
        lock: &'a str,
        (host, program, pid): (&'a str, &'a str, u32),
        token: Option<FencingToken>,
    ) -> Self {
        let token = token.map(|token| token.to_string()).unwrap_or_default().into();
        let process = format!("{host}:{pid}").into();
        Self { lock: lock.into(), process, token, host: host.into(), program: program.into(), pid, ..self }
    }

    pub(super) fn ended(machine: &'a str, end: PastEnd, until_ms: u64) -> Self {
        let event = match end {
            PastEnd::Left | PastEnd::Asked => "released",
            PastEnd::Lost => "lost",
            PastEnd::GaveUp | PastEnd::Between => "gave_up",
            // How it ended, no checker may know.
            PastEnd::Holds | PastEnd::Unseen => "unseen",
        };
        let reason = if end == PastEnd::Lost { "unknown" } else { "" };
        Self { reason, ended: end.as_str(), ..Self::new(machine, event, until_ms) }
    }

    pub(super) fn write(&self) -> String {
        let mut line = serde_json::to_string(self).expect("texts and numbers can be written");
        if self.event == "lost" && self.late_ns == 0 {
            line.insert_str(1, "\"late_ns\":0,");
        }
        line.push('\n');
        line
    }
}

pub(super) fn key(lock: &str, id: &str) -> HoldKey {
    (lock.to_owned(), id.to_owned())
}

impl KeptHistory {
    pub(super) const fn is_kept(&self) -> bool {
        self.machine.is_some()
    }

    pub(super) fn write(&mut self, line: impl FnOnce(&str) -> String) {
        let Some(machine) = &self.machine else { return };
        let line = line(machine);
        if self.unwritten.len() + line.len() > UNWRITTEN_BYTES_MAX {
            self.left_out += 1;
        } else {
            self.unwritten.push_str(&line);
        }
    }

    pub(super) fn granted(&mut self, lock: &QueueName, info: &ContenderInfo, from_ms: u64) {
        // Most often there is none of before a restart.
        if !self.open.is_empty() {
            let key = key(lock.as_str(), info.id.as_str());
            if let Some(open) = self.open.remove(&key) {
                self.resumed.insert(key, open.from_ms);
                return;
            }
        }
        self.write(|machine| {
            let (mode, id) = (info.mode.as_str(), info.id.as_str().into());
            let line = KeptLine { mode, id, ..KeptLine::new(machine, "granted", from_ms) };
            line.of(lock.as_str(), named(info), info.token).write()
        });
    }

    /// Returns when a hold of before a restart began that has gone on over it; it ends now.
    pub(super) fn begun(&mut self, lock: &QueueName, info: &ContenderInfo) -> Option<u64> {
        // Most often there is none.
        if self.resumed.is_empty() {
            return None;
        }
        self.resumed.remove(&key(lock.as_str(), info.id.as_str()))
    }

    /// Returns when a hold began that goes on, if that was before a restart.
    pub(super) fn begun_before(&self, lock: &str, info: &ContenderInfo) -> Option<u64> {
        if self.resumed.is_empty() {
            return None;
        }
        self.resumed.get(&key(lock, info.id.as_str())).copied()
    }

    pub(super) fn ended(&mut self, lock: &QueueName, info: &ContenderInfo, record: &PlaceRecord) {
        self.write(|machine| {
            let line = KeptLine {
                id: info.id.as_str().into(),
                waited_ms: record.waited().map(whole_ms),
                from_slack_ms: record.slack_before().map(whole_ms),
                until_slack_ms: Some(u64::from(record.until_slack_ms)),
                ..KeptLine::ended(machine, record.end, record.until_ms)
            };
            line.of(lock.as_str(), named(info), info.token).write()
        });
    }

    pub(super) fn missed(&mut self, lock: &QueueName, missed: u64, at_ms: u64) {
        self.write(|machine| {
            let line = KeptLine::new(machine, "missed", at_ms);
            KeptLine { lock: lock.as_str().into(), missed, ..line }.write()
        });
    }

    /// Keeps a mark of a lock: of a contender, with its identity, or of none.
    pub(super) fn mark(&mut self, lock: &str, id: &str, who: (&str, &str, u32), what: &str, at_ms: u64) {
        self.write(|machine| {
            let line = KeptLine { id: id.into(), what: what.into(), ..KeptLine::new(machine, "mark", at_ms) };
            line.of(lock, who, None).write()
        });
    }

    /// Keeps the steps of queues that are due: all, or else one of each lock.
    pub(super) fn lengths(&mut self, all: bool) {
        for (lock, step) in self.steps.take(all) {
            let QueueRecord { longest, last: waiting, .. } = step;
            self.write(|machine| {
                let line = KeptLine::new(machine, "queue", step.at_ms());
                KeptLine { lock: lock.as_str().into(), longest, waiting, ..line }.write()
            });
        }
    }

    pub(super) fn gap(&mut self, gap: BlindGap) {
        self.write(|machine| {
            let line = KeptLine::new(machine, "blind", whole_ms(gap.until_unix));
            KeptLine { from_unix_ms: Some(whole_ms(gap.from_unix)), ..line }.write()
        });
    }

    /// Returns the gap of a restart, which ends now.
    pub(super) fn found_again(&mut self, now_ms: u64) -> Option<BlindGap> {
        let last_ms = self.last_ms.take()?;
        Some(BlindGap::new(last_ms.min(now_ms), now_ms))
    }
}
