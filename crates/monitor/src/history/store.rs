//! The store of the history: compact records within a bound of memory, of which the oldest are forgotten first.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use lockkeeper::clock::BootInstant;
use lockkeeper::{ContenderInfo, Mode, QueueName};

use super::hold::{BlindGap, PastEnd};
use super::kept::KeptHistory;
use super::names::{NameNumber, NameTable};
use super::peaks::Peaks;
use super::records::{MarkRecord, PlaceRecord, QueueRecord, UnseenRecord, WhoRecord, named, second, whole_ms};
use super::ring::RecordRing;
use crate::moment::TimePoint;

/// How much memory the history takes at most: an hour of a service that grants two hundred locks a second.
pub const HISTORY_BYTES_MAX: usize = 64 << 20;

/// How many gaps are kept: a service that is lost more often than that is not followed at all.
pub(super) const GAPS_MAX: usize = 1_000;

/// A wait in vain that is shorter is not kept: callers that only try the lock would leave no room for holds.
const VAIN_WAIT_MIN: Duration = Duration::from_secs(1);

/// By how much the wall clock and the time since the boot may come apart before times are counted from it anew.
const CLOCK_STEP_MIN: Duration = Duration::from_secs(1);

/// What has happened to all locks, as far as it is kept.
#[derive(Clone, Debug)]
pub struct History {
    pub(super) bytes_max: usize,
    pub(super) names: NameTable,
    pub(super) places: RecordRing<PlaceRecord>,
    pub(super) queues: RecordRing<QueueRecord>,
    pub(super) marks: RecordRing<MarkRecord>,
    pub(super) unseen: RecordRing<UnseenRecord>,
    pub(super) peaks: HashMap<NameNumber, Peaks>,
    pub(super) gaps: VecDeque<BlindGap>,
    /// Since when all is kept that was seen, in milliseconds since 1970; `None` if nothing was seen yet.
    pub(super) since_ms: Option<u64>,
    /// Since when nothing is seen, if it is so.
    pub(super) blind_since: Option<BootInstant>,
    /// The moment that times are counted from.
    anchor: Option<TimePoint>,
    pub(super) kept: KeptHistory,
}

/// A contender that has gone, as the model knew it.
#[derive(Debug)]
pub(crate) struct Departed<'a> {
    pub(crate) info: &'a ContenderInfo,
    /// When it was seen first; `None` if it was found at a first look.
    pub(crate) joined: Option<BootInstant>,
    /// When it was seen to hold first, and when it was not yet.
    pub(crate) hold: Option<(BootInstant, Option<BootInstant>)>,
    /// When it was there last for sure.
    pub(crate) known: BootInstant,
    pub(crate) end: PastEnd,
}

impl Default for History {
    fn default() -> Self {
        Self::bounded(HISTORY_BYTES_MAX)
    }
}

impl History {
    /// Keeps so many bytes at most.
    pub fn bounded(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            names: NameTable::default(),
            places: RecordRing::default(),
            queues: RecordRing::default(),
            marks: RecordRing::default(),
            unseen: RecordRing::default(),
            peaks: HashMap::new(),
            gaps: VecDeque::new(),
            since_ms: None,
            blind_since: None,
            anchor: None,
            kept: KeptHistory::default(),
        }
    }

    /// Returns how much memory it takes.
    pub fn bytes(&self) -> usize {
        self.names.bytes()
            + self.places.bytes()
            + self.queues.bytes()
            + self.marks.bytes()
            + self.unseen.bytes()
            + self.peaks.len() * Peaks::BYTES
            + self.gaps.len() * size_of::<BlindGap>()
    }

    /// Counts the contenders that it knows, those that are gone.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Tells whether nothing has happened yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes in that everything was seen at a moment: a gap before it ends.
    pub(crate) fn see_again(&mut self, now: TimePoint) {
        let now_ms = self.unix_ms(now.boot, now);
        if let Some(blind) = self.blind_since.take() {
            let from_ms = self.unix_ms(blind, now);
            self.note_gap(BlindGap::new(from_ms, now_ms));
        }
        self.close_open(now);
        if let Some(gap) = self.kept.found_again(now_ms) {
            self.note_gap(gap);
        }
        self.since_ms.get_or_insert(now_ms);
    }

    /// Takes in that nothing is seen since a moment.
    pub(crate) fn go_blind(&mut self, known: BootInstant) {
        self.blind_since.get_or_insert(known);
    }

    pub(crate) const fn is_blind(&self) -> bool {
        self.blind_since.is_some()
    }

    pub(super) fn note_gap(&mut self, gap: BlindGap) {
        self.kept.gap(gap);
        self.push_gap(gap);
    }

    pub(super) fn push_gap(&mut self, gap: BlindGap) {
        if self.gaps.len() == GAPS_MAX {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap);
    }

    /// Takes in that a contender was granted a lock.
    pub(crate) fn granted(&mut self, lock: &QueueName, info: &ContenderInfo, seen: BootInstant, now: TimePoint) {
        // What freezes it holds it for no caller, and its end is none of a hold either.
        if self.kept.is_kept() && info.frozen.is_none() {
            let from_ms = self.unix_ms(seen, now);
            self.kept.granted(lock, info, from_ms);
        }
    }

    /// Takes in that a contender has gone.
    pub(crate) fn departed(&mut self, lock: &QueueName, gone: &Departed<'_>, now: TimePoint) {
        let Departed { info, joined, hold, known, end } = *gone;
        let waits_until = hold.map_or(known, |(seen, _)| seen);
        let waited = joined.map(|joined| waits_until.saturating_duration_since(joined));
        let is_try = end == PastEnd::GaveUp && waited.is_none_or(|waited| waited < VAIN_WAIT_MIN);
        // Who waits at a semaphore's gate leaves it when it is granted, and holds as other contenders.
        if info.frozen.is_some() || is_try || info.mode == Mode::Acquire {
            return;
        }
        let end = if hold.is_some() && self.is_blind() { PastEnd::Unseen } else { end };
        let until_ms = self.unix_ms(known, now);
        let from_ms = hold.map_or(until_ms, |(seen, _)| self.unix_ms(seen, now).min(until_ms));
        let from_ms = self.kept.begun(lock, info).map_or(from_ms, |begun_ms| begun_ms.min(from_ms));
        let from_slack = hold.and_then(|(seen, before)| before.map(|before| seen.saturating_duration_since(before)));
        let record = PlaceRecord::new(info.token, [from_ms, until_ms], self.who(named(info)), info.mode, end);
        let until_slack = now.boot.saturating_duration_since(known);
        let record = record.with_times(waited, from_slack, until_slack);
        self.kept.ended(lock, info, &record);
        self.push_place(lock.as_str(), record);
        self.keep_within();
    }

    pub(super) fn push_place(&mut self, lock: &str, record: PlaceRecord) {
        let lock = self.names.take(lock);
        self.places.push(lock, record);
    }

    /// Takes in how many wait for a lock.
    pub(crate) fn see_queue(&mut self, lock: &QueueName, waiting: usize, now: TimePoint) {
        let known = self.names.find(lock.as_str());
        let last = known.and_then(|lock| self.queues.of(lock).next()).map_or(0, |step| step.last);
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        self.kept.queued.remove(lock);
        if last == waiting {
            return;
        }
        let now_ms = self.unix_ms(now.boot, now);
        self.keep_step(lock, QueueRecord::new(now_ms, last, waiting));
    }

    /// Takes in a step that is to be kept over a restart.
    pub(super) fn keep_step(&mut self, lock: &QueueName, step: QueueRecord) {
        if self.kept.is_kept() {
            self.kept.steps.add(lock, &step);
        }
        self.push_step(lock.as_str(), step);
    }

    pub(super) fn push_step(&mut self, lock: &str, step: QueueRecord) {
        let (at_ms, lengths) = (step.at_ms(), [step.longest, step.last]);
        let known = self.names.find(lock);
        let newest = known.and_then(|lock| self.queues.newest_mut(lock)).filter(|newest| newest.second == step.second);
        if let Some(newest) = newest {
            newest.join(&step);
        } else {
            let number = self.names.take(lock);
            self.queues.push(number, step);
            self.keep_within();
        }
        if let Some(number) = self.names.find(lock) {
            let peaks = self.peaks.entry(number).or_insert_with(|| Peaks::new(at_ms));
            lengths.into_iter().for_each(|length| peaks.note(length as usize, at_ms));
        }
    }

    /// Takes in that so many contenders came and went of which nothing else is known.
    pub(crate) fn miss(&mut self, lock: &QueueName, count: u64, now: TimePoint) {
        if count > 0 {
            let now_ms = self.unix_ms(now.boot, now);
            self.kept.missed(lock, count, now_ms);
            self.push_unseen(lock.as_str(), count, now_ms);
        }
    }

    pub(super) fn push_unseen(&mut self, lock: &str, count: u64, at_ms: u64) {
        let second = second(at_ms);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let known = self.names.find(lock);
        let newest = known.and_then(|lock| self.unseen.newest_mut(lock)).filter(|unseen| unseen.second == second);
        if let Some(newest) = newest {
            newest.count = newest.count.saturating_add(count);
        } else {
            let number = self.names.take(lock);
            self.unseen.push(number, UnseenRecord { second, count });
            self.keep_within();
        }
    }

    pub(super) fn who(&mut self, (host, program, pid): (&str, &str, u32)) -> WhoRecord {
        WhoRecord { host: self.names.take(host), program: self.names.take(program), pid }
    }

    /// Forgets the oldest until it takes no more memory than it may.
    pub(super) fn keep_within(&mut self) {
        while self.bytes() > self.bytes_max && self.forget() {}
    }

    /// Forgets the oldest block of records; tells whether there was one.
    fn forget(&mut self) -> bool {
        let oldest = [
            self.places.oldest().map(|record| record.until_ms),
            self.queues.oldest().map(|record| u64::from(record.second) * 1_000),
            self.marks.oldest().map(|record| record.at_ms),
            self.unseen.oldest().map(|record| u64::from(record.second) * 1_000),
        ];
        let Some(first) = oldest.iter().flatten().min().copied() else { return false };
        let mut last = first;
        let mut forgotten = Vec::new();
        if oldest[0] == Some(first) {
            for place in self.places.forget_block() {
                last = last.max(place.record.until_ms);
                let WhoRecord { host, program, .. } = place.record.who;
                forgotten.extend([host, program]);
                self.give_back_lock(place.lock);
            }
        } else if oldest[1] == Some(first) {
            for queue in self.queues.forget_block() {
                last = last.max(u64::from(queue.record.second) * 1_000);
                self.give_back_lock(queue.lock);
            }
        } else if oldest[3] == Some(first) {
            for unseen in self.unseen.forget_block() {
                last = last.max(u64::from(unseen.record.second) * 1_000);
                self.give_back_lock(unseen.lock);
            }
        } else {
            for mark in self.marks.forget_block() {
                last = last.max(mark.record.at_ms);
                let MarkRecord { who: WhoRecord { host, program, .. }, what, .. } = mark.record;
                forgotten.extend([host, program, what]);
                self.give_back_lock(mark.lock);
            }
        }
        for name in forgotten {
            self.names.give_back(name);
        }
        self.since_ms = self.since_ms.max(Some(last));
        true
    }

    fn give_back_lock(&mut self, lock: NameNumber) {
        if self.names.give_back(lock) {
            self.peaks.remove(&lock);
        }
    }

    /// Returns a moment in milliseconds since 1970, so that two moments are as far apart as they were.
    pub(super) fn unix_ms(&mut self, moment: BootInstant, now: TimePoint) -> u64 {
        let is_near = |anchor: &TimePoint| unix(*anchor, now.boot).abs_diff(now.unix) <= CLOCK_STEP_MIN;
        self.anchor = self.anchor.filter(is_near).or(Some(now));
        whole_ms(self.unix(moment, now))
    }

    /// The same, in time since 1970-01-01 UTC.
    pub(super) fn unix(&self, moment: BootInstant, now: TimePoint) -> Duration {
        unix(self.anchor.unwrap_or(now), moment)
    }
}

fn unix(anchor: TimePoint, moment: BootInstant) -> Duration {
    let before = anchor.boot.saturating_duration_since(moment);
    (anchor.unix + moment.saturating_duration_since(anchor.boot)).saturating_sub(before)
}
