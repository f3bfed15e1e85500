//! Marks of the history: what else has happened to a lock, to a contender or by it. Requests, freezes and alerts.

use std::collections::BTreeSet;
use std::time::Duration;

use lockkeeper::{ContenderInfo, QueueName};

use super::hold::PastFreeze;
use super::kept::key;
use super::past::PastMark;
use super::records::{MarkRecord, named};
use super::store::History;
use crate::alerts::AlertNews;
use crate::events::{LockEventKind, marked};
use crate::moment::TimePoint;

impl History {
    /// Takes in something else that has happened to a lock, to a contender or by it.
    pub(crate) fn mark(&mut self, lock: &QueueName, info: Option<&ContenderInfo>, what: &str, now: TimePoint) {
        let at_ms = self.unix_ms(now.boot, now);
        let (id, who) = info.map_or(("", ("", "", 0)), |info| (info.id.as_str(), named(info)));
        self.keep_mark(lock.as_str(), id, who, what, at_ms);
    }

    /// Takes in that a contender freezes a lock when locks are seen first. A kept history marks it then, unless it
    /// knows of it: after a restart it is known since when it was so.
    pub(crate) fn find_frozen(&mut self, lock: &QueueName, info: &ContenderInfo, now: TimePoint) {
        let is_known = self.kept.frozen.remove(&key(lock.as_str(), info.id.as_str())).is_some();
        let is_new = self.kept.is_kept() && !is_known;
        if let Some(what) = marked(LockEventKind::Frozen, info).filter(|_| is_new) {
            self.mark(lock, Some(info), &what, now);
        }
    }

    /// Takes in a mark that is to be kept over a restart.
    pub(super) fn keep_mark(&mut self, lock: &str, id: &str, who: (&str, &str, u32), what: &str, at_ms: u64) {
        self.kept.mark(lock, id, who, what, at_ms);
        self.push_mark(lock, who, what, at_ms);
    }

    pub(super) fn push_mark(&mut self, lock: &str, who: (&str, &str, u32), what: &str, at_ms: u64) {
        let (lock, who, what) = (self.names.take(lock), self.who(who), self.names.take(what));
        self.marks.push(lock, MarkRecord { at_ms, who, what });
        self.keep_within();
    }

    /// Takes in that an alert of a lock has begun or is over. One of the service is a mark of no lock.
    pub fn note_alert(&mut self, news: &AlertNews, now: TimePoint) {
        let (about, what) = match news {
            AlertNews::Raised(alert) => (&alert.about, "alert"),
            AlertNews::Ended(alert) => (&alert.about, "alert over"),
        };
        let what = format!("{what}: {}", about.rule().as_str());
        for lock in about.locks().collect::<BTreeSet<_>>() {
            self.mark(lock, None, &what, now);
        }
    }
}

/// Tells whether a mark is of the beginning of a freeze.
pub(super) fn is_freeze(what: &str) -> bool {
    what.starts_with(LockEventKind::Frozen.as_str())
}

/// Tells whether a mark is of the end of a freeze.
pub(super) fn is_thaw(what: &str) -> bool {
    what == LockEventKind::Thawed.as_str()
}

/// Finds when a lock was frozen, by its marks, the newest first: several may freeze it together, and so many do at the
/// end. One whose beginning has no mark has frozen it since the first moment that is looked at.
pub(super) fn freezes(marks: &[PastMark<'_>], freezers: usize, [since, now]: [Duration; 2]) -> Vec<PastFreeze> {
    let (mut found, mut freezers, mut until_unix) = (Vec::new(), freezers, now);
    for mark in marks {
        if is_thaw(mark.what) {
            if freezers == 0 {
                until_unix = mark.at_unix;
            }
            freezers += 1;
        } else if is_freeze(mark.what) && freezers > 0 {
            freezers -= 1;
            if freezers == 0 {
                found.push(PastFreeze { from_unix: mark.at_unix, until_unix });
            }
        }
    }
    if freezers > 0 {
        found.push(PastFreeze { from_unix: since, until_unix });
    }
    found.reverse();
    found
}
