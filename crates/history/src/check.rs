//! The checker: pure, from a history to the rules that it breaks.
//!
//! Tokens give the order of the grants, so nothing is searched for: one sweep, and one pass back over the grants.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockkeeper_core::FencingToken;
use lockkeeper_core::clock::BootInstant;

use crate::record::{Asks, HistoryRecord, What};

/// The limits of a history, beside the rules without numbers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest time for which the lock may be free while a contender waits for it, and no call fails.
    pub hand_off_max: Duration,
    /// How many permits may be held at the same time.
    pub permits: u32,
    /// Whether tasks of a keeper pass the lock on, so that one takes the turn of another, which may have joined long
    /// before it: then the order of the calls is no rule.
    pub passes_turns: bool,
}

impl Default for Limits {
    /// No limit of time, no permits, and no turns that are passed on.
    fn default() -> Self {
        Self { hand_off_max: Duration::MAX, permits: 0, passes_turns: false }
    }
}

/// A rule that a history breaks.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are attempts, tokens and counts, as their names say")]
pub enum Violation {
    /// Two contenders that exclude each other believed to hold the lock at the same time.
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
    /// A holder whose process ran was told that it had lost the lock only after another contender was granted it.
    ToldLate { holder: u32, second: u32 },
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
pub fn check(records: &[HistoryRecord], limits: Limits) -> Vec<Violation> {
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
struct JudgedHold {
    attempt: u32,
    asks: Asks,
    token: FencingToken,
    called: usize,
    joined: Option<usize>,
    granted: usize,
    granted_at: BootInstant,
    /// When its holder believed in it last.
    believed: usize,
    /// When its holder was told that it is lost.
    told: Option<usize>,
}

/// A time in which the process of a keeper stood still.
#[derive(Debug)]
struct Standstill {
    keeper: u32,
    from: usize,
    /// What happens at the moment of its end may stand on either side of it.
    until: Option<BootInstant>,
}

#[derive(Debug)]
struct Sweep {
    limits: Limits,
    position: usize,
    attempts: BTreeMap<u32, Attempt>,
    /// Keepers whose session is being ended.
    upset: Vec<u32>,
    stops: Vec<Standstill>,
    /// The holders that are relied on, and where the grant of each stands.
    holders: BTreeMap<u32, usize>,
    free_since: Option<BootInstant>,
    tokens: Tokens,
    grants: Vec<JudgedHold>,
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
            stops: Vec::new(),
            holders: BTreeMap::new(),
            free_since: None,
            tokens: Tokens::new(),
            grants: Vec::new(),
            drained: false,
            violations: Vec::new(),
        }
    }

    fn take(&mut self, record: &HistoryRecord) {
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
            What::Held { attempt } => {
                self.of_granted(attempt, |_| ());
                self.believe(attempt);
            }
            What::Lost { attempt } => self.lost(attempt, at),
            What::Releasing { attempt } => {
                self.believe(attempt);
                self.end(attempt, at);
            }
            What::GaveUp { attempt } => self.of_pending(attempt, |pending| pending.outcome = Some(Outcome::GaveUp)),
            What::Upset { keeper } => {
                self.upset.push(keeper);
                let attempts = &self.attempts;
                let is_its = |attempt: &u32| attempts.get(attempt).is_some_and(|known| known.keeper == keeper);
                let holders: Vec<_> = self.holders.keys().copied().filter(is_its).collect();
                self.rely_no_more(&holders, at);
            }
            What::Stopped { keeper } => self.stops.push(Standstill { keeper, from: self.position, until: None }),
            What::GoesOn { keeper } => {
                let stop = self.stops.iter_mut().find(|stop| stop.keeper == keeper && stop.until.is_none());
                stop.into_iter().for_each(|stop| stop.until = Some(at));
            }
            What::Settled { keeper } => self.upset.retain(|&other| other != keeper),
            What::DataLost { tokens_from } => {
                let grants = &self.grants;
                let is_lost = |(_, grant): &(&u32, &usize)| grants[**grant].token < tokens_from;
                let holders: Vec<_> = self.holders.iter().filter(is_lost).map(|(&attempt, _)| attempt).collect();
                self.rely_no_more(&holders, at);
                self.tokens.begin_again_from(tokens_from);
            }
            What::Drained { left: 0 } => self.drained = true,
            What::Drained { left } => {
                self.drained = true;
                self.violations.push(Violation::Orphans { left });
            }
        }
    }

    /// Changes an attempt that was called and has no outcome yet.
    fn of_pending(&mut self, attempt: u32, change: impl FnOnce(&mut Attempt)) {
        self.of(attempt, None, change);
    }

    /// Changes an attempt that was granted the lock, and has not ended.
    fn of_granted(&mut self, attempt: u32, change: impl FnOnce(&mut Attempt)) {
        self.of(attempt, Some(Outcome::Granted), change);
    }

    fn of(&mut self, attempt: u32, outcome: Option<Outcome>, change: impl FnOnce(&mut Attempt)) {
        match self.attempts.get_mut(&attempt).filter(|known| known.outcome == outcome) {
            Some(known) => change(known),
            None => self.violations.push(Violation::Malformed { attempt }),
        }
    }

    fn granted(&mut self, attempt: u32, token: FencingToken, held: bool, at: BootInstant) {
        let Some(known) = self.attempts.get_mut(&attempt).filter(|known| known.outcome.is_none()) else {
            self.violations.push(Violation::Malformed { attempt });
            return;
        };
        known.outcome = Some(Outcome::Granted);
        if !held || self.upset.contains(&known.keeper) || self.tokens.is_of_lost_data(token) {
            return;
        }
        let (asks, joined, floor) = (known.asks, known.joined, known.floor);
        self.grants.push(JudgedHold {
            attempt,
            asks,
            token,
            called: known.called,
            joined: joined.map(|(position, _)| position),
            granted: self.position,
            granted_at: at,
            believed: self.position,
            told: None,
        });
        if let (Some(free_since), Some((_, joined_at))) = (self.free_since, joined) {
            let free_for = at.saturating_duration_since(free_since.max(joined_at));
            if free_for > self.limits.hand_off_max {
                self.violations.push(Violation::SlowHandOff { attempt, free_for });
            }
        }
        if let Some(before) = self.tokens.take(token, asks, floor) {
            self.violations.push(Violation::TokenNotGrowing { attempt, token, before });
        }
        self.holders.insert(attempt, self.grants.len() - 1);
        self.free_since = None;
    }

    /// Notes that a holder has believed in its hold until now.
    fn believe(&mut self, attempt: u32) {
        if let Some(&grant) = self.holders.get(&attempt) {
            self.grants[grant].believed = self.position;
        }
    }

    fn lost(&mut self, attempt: u32, at: BootInstant) {
        if let Some(&grant) = self.holders.get(&attempt) {
            self.grants[grant].told = Some(self.position);
        }
        self.end(attempt, at);
        // Waiters go on when its session ends, which is a matter of the service's time.
        self.free_since = None;
    }

    fn end(&mut self, attempt: u32, at: BootInstant) {
        self.of_granted(attempt, |granted| granted.outcome = Some(Outcome::Done));
        self.rely_no_more(&[attempt], at);
    }

    fn rely_no_more(&mut self, attempts: &[u32], at: BootInstant) {
        let before = self.holders.len();
        self.holders.retain(|holder, _| !attempts.contains(holder));
        if self.holders.len() < before && self.holders.is_empty() {
            self.free_since = Some(at);
        }
    }

    fn finish(mut self) -> Vec<Violation> {
        self.check_exclusion();
        if !self.limits.passes_turns {
            self.check_order();
        }
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

    /// Checks each grant against what was believed to be held then or later, and which holders were not told by then.
    fn check_exclusion(&mut self) {
        let (mut holding, mut found) = (Vec::<&JudgedHold>::new(), Vec::new());
        for second in &self.grants {
            holding.retain(|held| held.believed.max(held.told.unwrap_or(0)) > second.granted);
            let excluded = || holding.iter().filter(|held| second.asks.excludes(held.asks));
            let believing = excluded().filter(|held| held.believed > second.granted);
            if let Some(holder) = believing.map(|held| held.attempt).min() {
                found.push(Violation::TwoHolders { holder, second: second.attempt });
            }
            for held in excluded().filter(|held| held.believed < second.granted) {
                if !self.stood_still(held.attempt, second) {
                    let told_late = Violation::ToldLate { holder: held.attempt, second: second.attempt };
                    found.push(told_late);
                }
            }
            holding.push(second);
            let believing = holding.iter().filter(|held| held.believed >= second.granted);
            let held: u32 = believing.map(|held| held.asks.permits()).sum();
            if second.asks.permits() > 0 && held > self.limits.permits {
                found.push(Violation::TooManyPermits { attempt: second.attempt, held });
            }
        }
        self.violations.append(&mut found);
    }

    /// Tells whether the process of a holder stood still when another contender was granted the lock.
    fn stood_still(&self, holder: u32, second: &JudgedHold) -> bool {
        let keeper = self.attempts.get(&holder).map(|known| known.keeper);
        let lasted =
            |stop: &Standstill| stop.from < second.granted && stop.until.is_none_or(|at| second.granted_at <= at);
        self.stops.iter().any(|stop| Some(stop.keeper) == keeper && lasted(stop))
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

    fn take(&mut self, grant: &JudgedHold) {
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
    /// The first one since the service lost its data last.
    begin: Option<FencingToken>,
}

impl Tokens {
    const fn new() -> Self {
        Self { all: BTreeSet::new(), greatest_alone: None, begin: None }
    }

    fn begin_again_from(&mut self, first: FencingToken) {
        self.begin = self.begin.max(Some(first));
    }

    fn is_of_lost_data(&self, token: FencingToken) -> bool {
        self.begin.is_some_and(|first| token < first)
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
