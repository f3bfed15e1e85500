//! Reading of the history: holds and waits in vain, lengths of queues, gaps.

use std::time::Duration;

use lockkeeper::{ContenderInfo, FencingToken, Mode};

use super::hold::{BlindGap, PastEnd, PastFreeze};
use super::names::NameNumber;
use super::peaks::PEAK_MINUTES;
use super::records::{PlaceRecord, QueueRecord, WhoRecord, named, whole_ms};
use super::ring::Chained;
use super::store::History;

/// How many contenders of one lock are read at most: a picture of more costs a reader a tenth of a second.
const READ_MAX: usize = 20_000;

/// How many waits of a lock a percentile is of at most, the last ones.
const WAITS_MAX: usize = 200;

/// A contender that has held a lock, or holds it, or has waited for it in vain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PastContender<'a> {
    /// The lock.
    pub lock: &'a str,
    /// Its host, or else what its client wrote or the service shows of it.
    pub host: &'a str,
    /// Its program or session; empty if it is not known.
    pub program: &'a str,
    /// Its process, if it is known.
    pub pid: Option<u32>,
    /// What it asked for.
    pub mode: Mode,
    /// Its token, if the service shows it.
    pub token: Option<FencingToken>,
    /// When it was seen to hold first, in time since 1970-01-01 UTC; of a wait in vain, when it ended.
    pub from_unix: Duration,
    /// How long before that it may have held; `None` if that is not known.
    pub from_slack: Option<Duration>,
    /// When it was seen to hold last; of one that holds, now.
    pub until_unix: Duration,
    /// How long after that it may have held.
    pub until_slack: Duration,
    /// For how long it has waited, if that was seen.
    pub waited: Option<Duration>,
    /// How it ended.
    pub end: PastEnd,
}

/// How many waited from a moment on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LengthStep {
    /// The moment, in time since 1970-01-01 UTC, by the second.
    pub at_unix: Duration,
    /// How many waited at most within this second.
    pub longest: u32,
    /// How many waited at its end, and until the next step.
    pub last: u32,
}

/// Something else that has happened: a request to give up, a freeze, an alert.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PastMark<'a> {
    /// When, in time since 1970-01-01 UTC.
    pub at_unix: Duration,
    /// To whom or by whom; empty if that is not known.
    pub host: &'a str,
    /// What.
    pub what: &'a str,
}

/// What is known of a lock's past.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockPast<'a> {
    /// Since when it is known, in time since 1970-01-01 UTC: of what was asked for, or later.
    pub since_unix: Duration,
    /// Those who held it or waited in vain, the newest first.
    pub contenders: Vec<PastContender<'a>>,
    /// How long the queue was, the oldest first. The first step may lie before the time that was asked for.
    pub steps: Vec<LengthStep>,
    /// What else has happened, the newest first.
    pub marks: Vec<PastMark<'a>>,
    /// When it was frozen, the oldest first; a freeze that goes on ends now.
    pub freezes: Vec<PastFreeze>,
    /// How many more contenders came and went at most, of which nothing else is known: each held it for a moment, or
    /// gave up.
    pub missed: u64,
    /// When nothing was seen.
    pub gaps: Vec<BlindGap>,
}

/// What is asked of the history of all locks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum PastQuery<'a> {
    /// Who held what at a moment, in time since 1970-01-01 UTC.
    At(Duration),
    /// What this host, or a contender of this name, held.
    Holder(&'a str),
    /// The longest holds, so many.
    Longest(usize),
    /// The longest waits, so many.
    Waits(usize),
}

impl PastContender<'_> {
    /// Returns for how long it held at least.
    pub fn held(&self) -> Duration {
        self.until_unix.saturating_sub(self.from_unix)
    }
}

impl<'a> PastContender<'a> {
    /// A contender that holds now, since this moment.
    pub(crate) fn holding(lock: &'a str, info: &'a ContenderInfo, [from_unix, now_unix]: [Duration; 2]) -> Self {
        let (host, program, pid) = named(info);
        Self {
            lock,
            host,
            program,
            pid: (pid != 0).then_some(pid),
            mode: info.mode,
            token: info.token,
            from_unix,
            from_slack: None,
            until_unix: now_unix,
            until_slack: Duration::ZERO,
            waited: None,
            end: PastEnd::Holds,
        }
    }
}

impl History {
    /// Since when all that was seen is kept, in time since 1970-01-01 UTC; `None` if nothing was seen yet.
    pub fn since_unix(&self) -> Option<Duration> {
        self.since_ms.map(Duration::from_millis)
    }

    /// Returns when nothing was seen since a moment, the oldest gap first; a gap that goes on ends now.
    pub fn gaps(&self, since_unix: Duration) -> impl Iterator<Item = BlindGap> {
        self.gaps.iter().copied().filter(move |gap| gap.until_unix > since_unix)
    }

    /// Returns what is known of a lock since a moment, but for those who hold it now.
    pub fn of_lock(&self, lock: &str, since_unix: Duration) -> LockPast<'_> {
        let mut past = LockPast {
            since_unix: self.since_unix().unwrap_or(since_unix).max(since_unix),
            contenders: Vec::new(),
            steps: Vec::new(),
            marks: Vec::new(),
            freezes: Vec::new(),
            missed: 0,
            gaps: self.gaps(since_unix).collect(),
        };
        let Some(number) = self.names.find(lock) else { return past };
        let since_ms = whole_ms(since_unix);
        let recent = self.places.of(number).take_while(|record| record.until_ms >= since_ms).take(READ_MAX);
        past.contenders = recent.map(|record| self.past(number, record)).collect();
        if let Some(last) = past.contenders.last().filter(|_| past.contenders.len() == READ_MAX) {
            past.since_unix = past.since_unix.max(last.until_unix);
        }
        let mut is_before = false;
        let steps = self
            .queues
            .of(number)
            .take_while(|step| !std::mem::replace(&mut is_before, u64::from(step.second) * 1_000 < since_ms));
        past.steps = steps.map(|step| step.shown()).collect();
        past.steps.reverse();
        let marks = self.marks.of(number).take_while(|mark| mark.at_ms >= since_ms);
        past.marks = marks
            .map(|mark| PastMark {
                at_unix: Duration::from_millis(mark.at_ms),
                host: self.names.text(mark.who.host),
                what: self.names.text(mark.what),
            })
            .collect();
        let unseen = self.unseen.of(number).take_while(|unseen| u64::from(unseen.second) * 1_000 >= since_ms);
        past.missed = unseen.map(|unseen| u64::from(unseen.count)).sum();
        past
    }

    /// Returns the 95th percentile of the last waits for a lock that ended since a moment; `None` if there was none.
    pub fn wait_p95(&self, lock: &str, since_unix: Duration) -> Option<Duration> {
        let since_ms = whole_ms(since_unix);
        let recent = self.places.of(self.names.find(lock)?).take_while(|record| record.until_ms >= since_ms);
        let mut waits: Vec<_> = recent.take(WAITS_MAX).filter_map(PlaceRecord::waited).collect();
        waits.sort_unstable();
        // The least one that 95 of a hundred are no longer than.
        let place = (waits.len() * 95).div_ceil(100);
        waits.get(place.checked_sub(1)?).copied()
    }

    /// Returns how many waited for a lock at most in each of the last minutes, the oldest first; `None` if none has.
    pub fn peaks(&self, lock: &str, now_unix: Duration) -> Option<[u16; PEAK_MINUTES]> {
        let peaks = self.peaks.get(&self.names.find(lock)?)?;
        Some(peaks.until(whole_ms(now_unix))).filter(|counts| counts.iter().any(|&count| count > 0))
    }

    /// Returns the contenders that a question asks for, of those that are gone, at most so many.
    pub fn ask(&self, query: PastQuery<'_>, since_unix: Duration, limit: usize) -> Vec<PastContender<'_>> {
        let since_ms = whole_ms(since_unix);
        let recent = self.places.all().filter(|one| one.record.until_ms >= since_ms);
        let holds = |one: &&Chained<PlaceRecord>| one.record.end != PastEnd::GaveUp;
        let past = |one: &Chained<PlaceRecord>| self.past(one.lock, &one.record);
        match query {
            PastQuery::At(at_unix) => {
                let at_ms = whole_ms(at_unix);
                let held = recent.filter(|one| one.record.covers(at_ms)).filter(holds);
                held.take(limit).map(past).collect()
            }
            PastQuery::Holder(host) => {
                let Some(host) = self.names.find(host) else { return Vec::new() };
                recent.filter(|one| one.record.who.host == host).filter(holds).take(limit).map(past).collect()
            }
            PastQuery::Longest(count) => {
                let held = recent.filter(holds).map(|one| (one.record.until_ms - one.record.from_ms, one));
                greatest(held, count.min(limit)).map(past).collect()
            }
            PastQuery::Waits(count) => {
                let waited = recent.filter_map(|one| Some((one.record.waited()?, one)));
                greatest(waited, count.min(limit)).map(past).collect()
            }
        }
    }

    pub(super) fn past(&self, lock: NameNumber, record: &PlaceRecord) -> PastContender<'_> {
        let WhoRecord { host, program, pid } = record.who;
        PastContender {
            lock: self.names.text(lock),
            host: self.names.text(host),
            program: self.names.text(program),
            pid: (pid != 0).then_some(pid),
            mode: record.mode,
            token: record.token(),
            from_unix: Duration::from_millis(record.from_ms),
            from_slack: record.slack_before(),
            until_unix: Duration::from_millis(record.until_ms),
            until_slack: Duration::from_millis(u64::from(record.until_slack_ms)),
            waited: record.waited(),
            end: record.end,
        }
    }
}

/// Returns those with the greatest keys, the greatest first.
fn greatest<'a, Key: Ord, Kept: 'a>(
    keyed: impl Iterator<Item = (Key, &'a Kept)>,
    count: usize,
) -> impl Iterator<Item = &'a Kept> {
    let mut found: Vec<_> = keyed.collect();
    let descending = |(one, _): &(Key, &Kept), (other, _): &(Key, &Kept)| other.cmp(one);
    if found.len() > count {
        found.select_nth_unstable_by(count, descending);
        found.truncate(count);
    }
    found.sort_by(descending);
    found.into_iter().map(|(_, kept)| kept)
}

impl QueueRecord {
    pub(super) fn shown(&self) -> LengthStep {
        let at_unix = Duration::from_secs(u64::from(self.second));
        LengthStep { at_unix, longest: self.longest, last: self.last }
    }
}

impl PlaceRecord {
    /// Whether it was held at a moment, as far as that was seen.
    const fn covers(&self, at_ms: u64) -> bool {
        self.from_ms <= at_ms && at_ms <= self.until_ms + self.until_slack_ms as u64
    }
}
