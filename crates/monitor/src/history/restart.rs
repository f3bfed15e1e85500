//! The history over a restart: what is to be written, and what was read.

use std::time::Duration;

use lockkeeper::{Mode, QueueName};

use super::hold::{BlindGap, PastEnd};
use super::kept::{KeptLine, OpenFreeze, OpenHold, key};
use super::marks::{is_freeze, is_thaw};
use super::past::PastContender;
use super::records::{PlaceRecord, QueueRecord, whole_ms};
use super::store::History;
use crate::events::LockEventKind;
use crate::moment::TimePoint;

/// Returns the lines of a hold, as `lockkeeper verify` reads them: its grant, and its end if it is known.
pub fn lines_of(past: &PastContender<'_>, machine: &str) -> String {
    let who = (past.host, past.program, past.pid.unwrap_or_default());
    let [from_ms, until_ms] = [past.from_unix, past.until_unix].map(whole_ms);
    let waited_ms = past.waited.map(whole_ms);
    let granted = KeptLine { mode: past.mode.as_str(), waited_ms, ..KeptLine::new(machine, "granted", from_ms) };
    let granted = granted.of(past.lock, who, past.token).write();
    let ended = || KeptLine::ended(machine, past.end, until_ms).of(past.lock, who, past.token).write();
    match past.end {
        PastEnd::GaveUp | PastEnd::Between => ended(),
        PastEnd::Holds => granted,
        _ => granted + &ended(),
    }
}

impl History {
    /// Keeps it over a restart from here on: what is to be written, [`Self::take_unwritten`] returns. Its times are
    /// those of this machine.
    pub fn keep(&mut self, machine: String) {
        self.kept.machine = Some(machine);
    }

    /// Returns the lines that are to be written, and how many there was no room for. With a moment, the last one says
    /// that everything was seen until then.
    pub fn take_unwritten(&mut self, seen: Option<TimePoint>) -> (String, u64) {
        self.kept.lengths(seen.is_some());
        if let Some(now) = seen.filter(|_| !self.is_blind() && self.since_ms.is_some()) {
            let now_ms = self.unix_ms(now.boot, now);
            self.kept.write(|machine| KeptLine::new(machine, "seen", now_ms).write());
        }
        (std::mem::take(&mut self.kept.unwritten), std::mem::take(&mut self.kept.left_out))
    }

    /// Takes in the lines of a file, in their order, and returns how many of them are torn or none of a history.
    pub fn load(&mut self, text: &str) -> usize {
        let mut torn = 0;
        for line in text.lines().filter(|line| !line.is_empty()) {
            match serde_json::from_str::<KeptLine<'_>>(line) {
                Ok(line) if !line.event.is_empty() => self.take_line(&line),
                _ => torn += 1,
            }
        }
        self.keep_within();
        torn
    }

    fn take_line(&mut self, line: &KeptLine<'_>) {
        self.since_ms.get_or_insert(line.unix_ms);
        self.kept.last_ms = self.kept.last_ms.max(Some(line.unix_ms));
        let key = key(&line.lock, &line.id);
        match &*line.event {
            "blind" => {
                let gap = BlindGap::new(line.from_unix_ms.unwrap_or(line.unix_ms), line.unix_ms);
                self.push_gap(gap);
            }
            "mark" => self.take_mark(line),
            "queue" => {
                let step = QueueRecord::new(line.unix_ms, line.longest, line.waiting);
                // One of another name can be asked for by none.
                let Ok(lock) = QueueName::new(&line.lock) else { return };
                self.push_step(lock.as_str(), step.clone());
                if step.last > 0 {
                    self.kept.queued.insert(lock);
                } else {
                    self.kept.queued.remove(&lock);
                }
            }
            "missed" => self.push_unseen(&line.lock, line.missed, line.unix_ms),
            "granted" => {
                let (host, program) = (line.host.to_string(), line.program.to_string());
                let (mode, token) = (Mode::from_name(line.mode).unwrap_or(Mode::Mutex), line.token.parse().ok());
                let open = OpenHold { from_ms: line.unix_ms, host, program, pid: line.pid, mode, token };
                self.kept.open.insert(key, open);
            }
            "released" | "lost" | "unseen" | "gave_up" => {
                let open = self.kept.open.remove(&key);
                let from_ms = open.as_ref().map_or(line.unix_ms, |open| open.from_ms.min(line.unix_ms));
                let mode = open.map_or(Mode::Mutex, |open| open.mode);
                let end = PastEnd::from_name(line.ended).unwrap_or(PastEnd::Left);
                let who = self.who((&line.host, &line.program, line.pid));
                let times = [from_ms, line.unix_ms];
                let record = PlaceRecord::new(line.token.parse().ok(), times, who, mode, end).with_times(
                    line.waited_ms.map(Duration::from_millis),
                    line.from_slack_ms.map(Duration::from_millis),
                    Duration::from_millis(line.until_slack_ms.unwrap_or(0)),
                );
                self.push_place(&line.lock, record);
                self.keep_within();
            }
            _ => {}
        }
    }

    fn take_mark(&mut self, line: &KeptLine<'_>) {
        self.push_mark(&line.lock, (&line.host, &line.program, line.pid), &line.what, line.unix_ms);
        let key = key(&line.lock, &line.id);
        if is_freeze(&line.what) {
            let (host, program) = (line.host.to_string(), line.program.to_string());
            self.kept.frozen.insert(key, OpenFreeze { host, program, pid: line.pid });
        } else if is_thaw(&line.what) {
            self.kept.frozen.remove(&key);
        }
    }

    /// Takes in that all locks were seen: what held before the restart, and does not now, has gone unseen. A freeze and
    /// a queue end now, as those that end in another gap do.
    pub(super) fn close_open(&mut self, now: TimePoint) {
        let Some(last_ms) = self.kept.last_ms else { return };
        let now_ms = self.unix_ms(now.boot, now);
        for ((lock, id), OpenFreeze { host, program, pid }) in std::mem::take(&mut self.kept.frozen) {
            self.keep_mark(&lock, &id, (&host, &program, pid), LockEventKind::Thawed.as_str(), now_ms);
        }
        for lock in std::mem::take(&mut self.kept.queued) {
            self.keep_step(&lock, QueueRecord::new(now_ms, 0, 0));
        }
        for ((lock, id), open) in std::mem::take(&mut self.kept.open) {
            let OpenHold { from_ms, host, program, pid, mode, token } = open;
            let who = self.who((&host, &program, pid));
            let until_ms = last_ms.max(from_ms);
            let record = PlaceRecord::new(token, [from_ms, until_ms], who, mode, PastEnd::Unseen);
            self.kept.write(|machine| {
                let line = KeptLine { id: id.into(), ..KeptLine::ended(machine, PastEnd::Unseen, until_ms) };
                line.of(&lock, (&host, &program, pid), token).write()
            });
            self.push_place(&lock, record);
        }
        self.keep_within();
    }
}
