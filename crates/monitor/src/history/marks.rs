//! Marks of the history: what else has happened to a lock, to a contender or by it. Requests, freezes and alerts.

use std::collections::BTreeSet;
use std::time::Duration;

use lockkeeper::{ContenderInfo, QueueName};

use super::hold::PastFreeze;
use super::past::PastMark;
use super::records::{MarkRecord, WhoRecord};
use super::store::History;
use crate::alerts::AlertNews;
use crate::events::LockEventKind;
use crate::moment::TimePoint;

impl History {
    /// Takes in something else that has happened to a lock, to a contender or by it.
    pub(crate) fn mark(&mut self, lock: &QueueName, info: Option<&ContenderInfo>, what: &str, now: TimePoint) {
        let at_ms = self.unix_ms(now.boot, now);
        let who = match info {
            Some(info) => self.who(info),
            None => WhoRecord { host: self.names.take(""), program: self.names.take(""), pid: 0 },
        };
        let (lock, what) = (self.names.take(lock.as_str()), self.names.take(what));
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

/// Finds when a lock was frozen, by its marks, the newest first. One that is frozen at the end, with no mark of its
/// beginning, is so since the first moment that is looked at.
pub(super) fn freezes(marks: &[PastMark<'_>], is_frozen: bool, [since, now]: [Duration; 2]) -> Vec<PastFreeze> {
    let (mut found, mut end) = (Vec::new(), is_frozen.then_some(now));
    for mark in marks {
        if mark.what == LockEventKind::Thawed.as_str() {
            end = Some(mark.at_unix);
        } else if mark.what.starts_with(LockEventKind::Frozen.as_str())
            && let Some(until_unix) = end.take()
        {
            found.push(PastFreeze { from_unix: mark.at_unix, until_unix });
        }
    }
    found.extend(end.map(|until_unix| PastFreeze { from_unix: since, until_unix }));
    found.reverse();
    found
}
