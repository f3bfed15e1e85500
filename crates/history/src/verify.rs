//! The judge of what programs have written: holds of many processes and machines, lock by lock.
//!
//! Times of one boot are compared exactly. Those of two machines are compared by their wall clocks, and only what these
//! cannot explain is a fault. A hold whose end was not written, as that of a process that was killed, is not judged
//! beyond its token.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::time::Duration;

use lockkeeper_core::{FencingToken, Mode};
use serde::Serialize;

use crate::line::{HistoryLine, LineEvent};

/// A hold, for those who read what was found.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NamedHold {
    /// The process that held.
    pub process: String,
    /// The grant's token.
    pub token: String,
    /// When it was granted, by the wall clock of its machine, in milliseconds since 1970.
    pub granted_unix_ms: u64,
}

impl fmt::Display for NamedHold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, token, granted_unix_ms } = self;
        let (seconds, millis) = (granted_unix_ms / 1_000, granted_unix_ms % 1_000);
        write!(formatter, "{process} (token {token}, granted at {seconds}.{millis:03})")
    }
}

/// A promise that a lock broke.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "promise")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the two holds, in the order of their grants")]
pub enum BrokenPromise {
    /// Two that exclude each other believed to hold the lock at the same time, for so long.
    TwoHolders { lock: String, first: NamedHold, second: NamedHold, overlap_ms: u64 },
    /// Two grants have the same token.
    TokenTwice { lock: String, first: NamedHold, second: NamedHold },
    /// A later grant has a smaller token: the order was broken, or the service has lost its tokens.
    TokenFalls { lock: String, first: NamedHold, second: NamedHold },
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoHolders { lock, first, second, overlap_ms } => {
                write!(formatter, "{lock}: held by two for {overlap_ms}ms: {first}, and {second}")
            }
            Self::TokenTwice { lock, first, second } => {
                write!(formatter, "{lock}: one token for two grants: {first}, and {second}")
            }
            Self::TokenFalls { lock, first, second } => {
                write!(formatter, "{lock}: a token that fell: {first}, and after it {second}")
            }
        }
    }
}

/// How a history was judged.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Verified {
    /// How many locks there are.
    pub locks: usize,
    /// How many grants were judged.
    pub grants: usize,
    /// How many of them have no end in the history.
    pub unended: usize,
    /// The promises that were broken.
    pub broken: Vec<BrokenPromise>,
}

#[derive(Clone, Debug)]
struct LineHold {
    boot: String,
    process: String,
    is_shared: bool,
    is_permit: bool,
    token: FencingToken,
    from_ns: u64,
    from_unix_ms: u64,
    /// How long it lasted; `None` where that is not known.
    lasted_ns: Option<u64>,
}

/// Judges a history. The wall clocks of two machines differ by no more than this.
pub fn verify(lines: impl IntoIterator<Item = HistoryLine>, clocks_differ_max: Duration) -> Verified {
    let mut locks: BTreeMap<String, LockLines> = BTreeMap::new();
    for HistoryLine { boot, process, at_ns, unix_ms, lock, event } in lines {
        let of_lock = locks.entry(lock).or_default();
        of_lock.take(boot, process, [at_ns, unix_ms], event);
    }
    locks.retain(|_, of_lock| !of_lock.holds.is_empty());
    let mut verified = Verified { locks: locks.len(), ..Verified::default() };
    for (lock, LockLines { mut holds, .. }) in locks {
        holds.sort_by_key(|hold| (hold.from_unix_ms, hold.from_ns));
        verified.grants += holds.len();
        verified.unended += holds.iter().filter(|hold| hold.lasted_ns.is_none()).count();
        check_tokens(&lock, &holds, clocks_differ_max, &mut verified.broken);
        check_overlaps(&lock, &holds, clocks_differ_max, &mut verified.broken);
    }
    verified
}

/// The holds of one lock, as far as its lines were read.
#[derive(Debug, Default)]
struct LockLines {
    holds: Vec<LineHold>,
    /// Where those stand that have no end yet, by process and token.
    unended: HashMap<(String, FencingToken), VecDeque<usize>>,
}

impl LockLines {
    fn take(&mut self, boot: String, process: String, [at_ns, unix_ms]: [u64; 2], event: LineEvent) {
        let (token, over_ns) = match &event {
            LineEvent::Granted { token, .. } | LineEvent::Released { token } => (token, at_ns),
            LineEvent::Lost { token, late_ns, .. } => (token, at_ns.saturating_sub(*late_ns)),
            LineEvent::Unknown => return,
        };
        let Ok(token) = token.parse::<FencingToken>() else { return };
        let place = (process.clone(), token);
        if let LineEvent::Granted { mode, .. } = &event {
            let is_shared = mode == Mode::Read.as_str();
            let is_permit = [Mode::Permit, Mode::Member].iter().any(|counted| mode == counted.as_str());
            let (from_ns, from_unix_ms) = (at_ns, unix_ms);
            self.unended.entry(place).or_default().push_back(self.holds.len());
            self.holds.push(LineHold {
                boot,
                process,
                is_shared,
                is_permit,
                token,
                from_ns,
                from_unix_ms,
                lasted_ns: None,
            });
            return;
        }
        // The first one: a writer that goes on as a reader gives its own hold back first. What is not there was granted
        // before the history began, or is given back after its loss.
        let Some(unended) = self.unended.get_mut(&place) else { return };
        if let Some(hold) = unended.pop_front().map(|at| &mut self.holds[at]) {
            hold.lasted_ns = Some(over_ns.saturating_sub(hold.from_ns));
        }
        if unended.is_empty() {
            self.unended.remove(&place);
        }
    }
}

impl LineHold {
    fn named(&self) -> NamedHold {
        let (process, token) = (self.process.clone(), self.token.to_string());
        NamedHold { process, token, granted_unix_ms: self.from_unix_ms }
    }

    const fn excludes(&self, other: &Self) -> bool {
        !(self.is_shared && other.is_shared || self.is_permit && other.is_permit)
    }

    /// Whether the other one is of the same place: a share after a downgrade, or a lock that its owner takes again.
    fn is_beside(&self, other: &Self) -> bool {
        let ends = |hold: &Self| hold.lasted_ns.map_or(u64::MAX, |lasted_ns| hold.from_ns.saturating_add(lasted_ns));
        self.process == other.process && self.token == other.token && ends(self) >= other.from_ns
    }

    /// How long after the grant of this one that of the other was, as far as the clocks can tell.
    fn before_by(&self, other: &Self, clocks_differ_max: Duration) -> Option<Duration> {
        if self.boot == other.boot {
            return other.from_ns.checked_sub(self.from_ns).map(Duration::from_nanos);
        }
        let between = other.from_unix_ms.checked_sub(self.from_unix_ms).map(Duration::from_millis);
        between.and_then(|between| between.checked_sub(clocks_differ_max))
    }

    /// For how long this one went on after the grant of the other, at least.
    fn overlap(&self, other: &Self, clocks_differ_max: Duration) -> Option<Duration> {
        let lasted = Duration::from_nanos(self.lasted_ns?);
        if self.boot == other.boot {
            let between = Duration::from_nanos(other.from_ns.checked_sub(self.from_ns)?);
            return lasted.checked_sub(between);
        }
        let between = Duration::from_millis(other.from_unix_ms.checked_sub(self.from_unix_ms)?);
        lasted.checked_sub(between)?.checked_sub(clocks_differ_max)
    }
}

fn check_tokens(lock: &str, holds: &[LineHold], clocks_differ_max: Duration, broken: &mut Vec<BrokenPromise>) {
    let mut by_token: BTreeMap<FencingToken, &LineHold> = BTreeMap::new();
    for second in holds {
        let (lock, named) = (lock.to_owned(), second.named());
        if let Some(first) = by_token.get(&second.token).filter(|first| !first.is_beside(second)) {
            broken.push(BrokenPromise::TokenTwice { lock, first: first.named(), second: named });
            continue;
        }
        // Holders at the same time may write their grants in another order than that of their tokens.
        let later = by_token.range(second.token..).map(|(_, first)| *first);
        let fell = |first: &&LineHold| {
            first.token > second.token
                && first.excludes(second)
                && first.before_by(second, clocks_differ_max).is_some_and(|between| !between.is_zero())
        };
        if let Some(first) = later.rev().find(fell) {
            broken.push(BrokenPromise::TokenFalls { lock, first: first.named(), second: named });
        }
        by_token.insert(second.token, second);
    }
}

fn check_overlaps(lock: &str, holds: &[LineHold], clocks_differ_max: Duration, broken: &mut Vec<BrokenPromise>) {
    let mut lasting: Vec<&LineHold> = Vec::new();
    for second in holds {
        // A hold that has ended by now, and by more than the clocks differ, overlaps none that comes.
        let slack_ms = u64::try_from(clocks_differ_max.as_millis()).unwrap_or(u64::MAX);
        lasting.retain(|first| {
            let lasted_ms = first.lasted_ns.map_or(0, |lasted_ns| lasted_ns / 1_000_000 + 1);
            first.from_unix_ms.saturating_add(lasted_ms).saturating_add(slack_ms) >= second.from_unix_ms
        });
        for first in &lasting {
            let overlap = first.overlap(second, clocks_differ_max).filter(|overlap| !overlap.is_zero());
            if let Some(overlap) = overlap.filter(|_| first.excludes(second) && !first.is_beside(second)) {
                let overlap_ms = u64::try_from(overlap.as_millis()).unwrap_or(u64::MAX);
                let (first, second) = (first.named(), second.named());
                broken.push(BrokenPromise::TwoHolders { lock: lock.to_owned(), first, second, overlap_ms });
            }
        }
        lasting.push(second);
    }
}

#[cfg(test)]
mod tests;
