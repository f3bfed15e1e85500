//! The checker: pure, from a history to the rules that it breaks.
//!
//! Tokens give the order of the grants, so nothing is searched for: one sweep, and one pass back over the grants.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockkeeper_core::FencingToken;
use lockkeeper_core::clock::BootInstant;

use super::{Asks, Record, What};

/// The limits of a history, beside the rules without numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The longest time for which the lock may be free while a contender waits for it, and no call fails.
    pub(crate) hand_off_max: Duration,
    /// How many permits may be held at the same time.
    pub(crate) permits: u32,
}

/// A rule that a history breaks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Violation {
    /// Two contenders that exclude each other held the lock at the same time.
    TwoHolders { holder: u32, second: u32 },
    /// More permits were held at the same time than there are.
    TooManyPermits { attempt: u32, held: u32 },
    /// A contender that had joined before another asked was granted the lock after it.
    OutOfOrder { overtaken: u32, by: u32 },
    /// A grant's token was not greater than one before it.
    TokenNotGrowing { attempt: u32, token: FencingToken, before: FencingToken },
    /// A contender that did not give up was never granted the lock: its wake-up was lost.
    NeverGranted { attempt: u32 },
    /// A waiter was granted a lock that had been free for too long.
    SlowHandOff { attempt: u32, free_for: Duration },
    /// A holder never gave the lock back.
    NeverReleased { attempt: u32 },
    /// Contenders were left in the queue after all were done.
    Orphans { left: usize },
    /// The history does not end with a look at what was left behind.
    NotDrained,
    /// A record of an attempt that cannot follow those before it: the history was recorded wrongly.
    Malformed { attempt: u32 },
}

/// Returns the rules that a history breaks; none if it is right.
///
/// A history is about one lock: its contenders ask for it exclusively or shared, or they ask for permits of it.
pub(crate) fn check(records: &[Record], limits: Limits) -> Vec<Violation> {
    let mut sweep = Sweep::new(limits);
    for record in records {
        sweep.take(record);
    }
    sweep.finish()
}

#[derive(Debug)]
struct Attempt {
    keeper: u32,
    asks: Asks,
    called: usize,
    /// The greatest token that any contender was granted before this one asked.
    floor: Option<FencingToken>,
    joined: Option<(usize, BootInstant)>,
    outcome: Option<Outcome>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    Granted,
    Done,
    GaveUp,
}

/// A grant that is relied on: its guard said held, and its keeper's session was not being ended.
#[derive(Debug)]
struct Grant {
    attempt: u32,
    asks: Asks,
    token: FencingToken,
    called: usize,
    joined: Option<usize>,
}

#[derive(Debug)]
struct Sweep {
    limits: Limits,
    position: usize,
    attempts: BTreeMap<u32, Attempt>,
    /// Keepers whose session is being ended.
    upset: Vec<u32>,
    /// The holders, and what each holds.
    holders: BTreeMap<u32, Asks>,
    free_since: Option<BootInstant>,
    tokens: Tokens,
    grants: Vec<Grant>,
    drained: bool,
    violations: Vec<Violation>,
}

impl Sweep {
    const fn new(limits: Limits) -> Self {
        Self {
            limits,
            position: 0,
            attempts: BTreeMap::new(),
            upset: Vec::new(),
            holders: BTreeMap::new(),
            free_since: None,
            tokens: Tokens::new(),
            grants: Vec::new(),
            drained: false,
            violations: Vec::new(),
        }
    }

    fn take(&mut self, record: &Record) {
        self.position += 1;
        let at = record.at;
        match record.what {
            What::Calling { attempt, keeper, asks } => {
                let (called, floor) = (self.position, self.tokens.greatest());
                let entry = Attempt { keeper, asks, called, floor, joined: None, outcome: None };
                if self.attempts.insert(attempt, entry).is_some() {
                    self.violations.push(Violation::Malformed { attempt });
                }
            }
            What::Joined { attempt } => {
                let joined = Some((self.position, at));
                self.of_pending(attempt, |pending| pending.joined = joined);
            }
            What::Granted { attempt, token, held } => self.granted(attempt, token, held, at),
            // Its pause is the retry policy's, and no wake-up that came late.
            What::Retrying { .. } => self.free_since = None,
            What::Releasing { attempt } => self.releasing(attempt, at),
            What::GaveUp { attempt } => self.of_pending(attempt, |pending| pending.outcome = Some(Outcome::GaveUp)),
            What::Upset { keeper } => self.upset(keeper, at),
            What::Settled { keeper } => self.upset.retain(|&other| other != keeper),
            What::Drained { left: 0 } => self.drained = true,
            What::Drained { left } => {
                self.drained = true;
                self.violations.push(Violation::Orphans { left });
            }
        }
    }

    /// Changes an attempt that was called and has no outcome yet.
    fn of_pending(&mut self, attempt: u32, change: impl FnOnce(&mut Attempt)) {
        match self.attempts.get_mut(&attempt).filter(|known| known.outcome.is_none()) {
            Some(pending) => change(pending),
            None => self.violations.push(Violation::Malformed { attempt }),
        }
    }

    fn granted(&mut self, attempt: u32, token: FencingToken, held: bool, at: BootInstant) {
        let Some(known) = self.attempts.get_mut(&attempt).filter(|known| known.outcome.is_none()) else {
            self.violations.push(Violation::Malformed { attempt });
            return;
        };
        known.outcome = Some(Outcome::Granted);
        if !held || self.upset.contains(&known.keeper) {
            return;
        }
        let (asks, joined) = (known.asks, known.joined);
        let grant = Grant { attempt, asks, token, called: known.called, joined: joined.map(|(position, _)| position) };
        self.grants.push(grant);
        if let (Some(free_since), Some((_, joined_at))) = (self.free_since, joined) {
            let free_for = at.saturating_duration_since(free_since.max(joined_at));
            if free_for > self.limits.hand_off_max {
                self.violations.push(Violation::SlowHandOff { attempt, free_for });
            }
        }
        if let Some(before) = self.tokens.take(token, asks, known.floor) {
            self.violations.push(Violation::TokenNotGrowing { attempt, token, before });
        }
        self.hold(attempt, asks);
        self.free_since = None;
    }

    /// Checks what is granted against what is held.
    fn hold(&mut self, attempt: u32, asks: Asks) {
        let excluded = self.holders.iter().find(|&(_, &held)| asks.excludes(held));
        if let Some((&holder, _)) = excluded {
            self.violations.push(Violation::TwoHolders { holder, second: attempt });
        }
        self.holders.insert(attempt, asks);
        let held: u32 = self.holders.values().map(|held| held.permits()).sum();
        if asks.permits() > 0 && held > self.limits.permits {
            self.violations.push(Violation::TooManyPermits { attempt, held });
        }
    }

    fn releasing(&mut self, attempt: u32, at: BootInstant) {
        match self.attempts.get_mut(&attempt) {
            Some(known) if known.outcome == Some(Outcome::Granted) => known.outcome = Some(Outcome::Done),
            _ => self.violations.push(Violation::Malformed { attempt }),
        }
        if self.holders.remove(&attempt).is_some() && self.holders.is_empty() {
            self.free_since = Some(at);
        }
    }

    fn upset(&mut self, keeper: u32, at: BootInstant) {
        self.upset.push(keeper);
        let (attempts, before) = (&self.attempts, self.holders.len());
        self.holders.retain(|holder, _| attempts.get(holder).is_none_or(|known| known.keeper != keeper));
        if self.holders.len() < before && self.holders.is_empty() {
            self.free_since = Some(at);
        }
    }

    fn finish(mut self) -> Vec<Violation> {
        self.check_order();
        for (&attempt, known) in &self.attempts {
            match known.outcome {
                None => self.violations.push(Violation::NeverGranted { attempt }),
                Some(Outcome::Granted) => self.violations.push(Violation::NeverReleased { attempt }),
                Some(Outcome::Done | Outcome::GaveUp) => {}
            }
        }
        if !self.drained {
            self.violations.push(Violation::NotDrained);
        }
        self.violations
    }

    /// From the last grant back: no contender that was granted later may have joined before this one was even asked
    /// for. Readers are an exception among themselves.
    fn check_order(&mut self) {
        // One service grants permits in the order of their tokens. Their holders run at the same time, and may record
        // the grants in another order.
        if self.grants.iter().all(|grant| grant.asks.permits() > 0) {
            self.grants.sort_by_key(|grant| grant.token);
        }
        let mut earliest = Earliest::default();
        let mut found = Vec::new();
        for grant in self.grants.iter().rev() {
            if let Some((joined, overtaken)) = earliest.excluded_by(grant.asks)
                && joined < grant.called
            {
                found.push(Violation::OutOfOrder { overtaken, by: grant.attempt });
            }
            earliest.take(grant);
        }
        self.violations.append(&mut found);
    }
}

/// The first to join of the contenders that were granted later: by position, with its attempt.
#[derive(Debug, Default)]
struct Earliest {
    reader: Option<(usize, u32)>,
    other: Option<(usize, u32)>,
}

impl Earliest {
    fn excluded_by(&self, asks: Asks) -> Option<(usize, u32)> {
        match (asks, self.reader, self.other) {
            (Asks::Share, _, other) => other,
            (_, Some(reader), Some(other)) => Some(reader.min(other)),
            (_, reader, other) => reader.or(other),
        }
    }

    fn take(&mut self, grant: &Grant) {
        let slot = if grant.asks == Asks::Share { &mut self.reader } else { &mut self.other };
        if let Some(joined) = grant.joined {
            let this = (joined, grant.attempt);
            *slot = Some(slot.map_or(this, |known| known.min(this)));
        }
    }
}

/// The tokens that were granted.
#[derive(Debug)]
struct Tokens {
    all: BTreeSet<FencingToken>,
    greatest_alone: Option<FencingToken>,
}

impl Tokens {
    const fn new() -> Self {
        Self { all: BTreeSet::new(), greatest_alone: None }
    }

    fn greatest(&self) -> Option<FencingToken> {
        self.all.last().copied()
    }

    /// Takes a grant's token; returns the token that it should have been greater than, if it is not.
    ///
    /// An exclusive holder's token is greater than all before. Holders at the same time may record their grants in
    /// another order, but none has a token that was granted before it asked, or to another contender.
    fn take(&mut self, token: FencingToken, asks: Asks, floor: Option<FencingToken>) -> Option<FencingToken> {
        let before = match asks {
            Asks::Alone => self.greatest(),
            Asks::Share => floor.max(self.greatest_alone),
            Asks::Permits(_) => floor,
        };
        let is_new = self.all.insert(token);
        if asks == Asks::Alone {
            self.greatest_alone = self.greatest_alone.max(Some(token));
        }
        before.filter(|&before| token <= before).or_else(|| (!is_new).then_some(token))
    }
}

#[cfg(test)]
mod tests;
