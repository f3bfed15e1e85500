//! The checker: pure, from a history to the rules that it breaks.
//!
//! Tokens give the order of the grants, so nothing is searched for: one sweep, and one pass back over the grants.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_core::FencingToken;
use lockkeeper_core::clock::BootInstant;

use super::record::{Record, What};

/// What a history is held to besides the rules without numbers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest time for which nobody may hold the lock while somebody waits for it.
    pub hand_off_max: Duration,
}

/// A rule that a history breaks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Violation {
    /// Two contenders held the lock at the same time.
    TwoHolders {
        /// The one who held it.
        holder: u32,
        /// The one who was granted it too.
        second: u32,
    },
    /// A contender that had joined before another asked was granted the lock after it.
    OutOfOrder {
        /// The one who came first.
        overtaken: u32,
        /// The one who was served first.
        by: u32,
    },
    /// A grant's token was not greater than one before it.
    TokenNotGrowing {
        /// Whose token it was.
        attempt: u32,
        /// The token.
        token: FencingToken,
        /// The greatest token before.
        before: FencingToken,
    },
    /// A contender that did not give up was never granted the lock: its wake-up was lost.
    NeverGranted {
        /// Which one.
        attempt: u32,
    },
    /// A waiter was granted a lock that had been free for too long.
    SlowHandOff {
        /// Which one.
        attempt: u32,
        /// For how long the lock had been free while it stood in the queue.
        free_for: Duration,
    },
    /// A holder never gave the lock back.
    NeverReleased {
        /// Which one.
        attempt: u32,
    },
    /// Contenders were left in the queue after all were done.
    Orphans {
        /// How many.
        left: usize,
    },
    /// The history does not end with a look at what was left.
    NotDrained,
    /// A record of an attempt that cannot follow those before it: the history was not recorded rightly.
    Malformed {
        /// Which attempt.
        attempt: u32,
    },
}

/// Returns the rules that a history breaks; none if it is right.
pub fn check(records: &[Record], limits: Limits) -> Vec<Violation> {
    let mut sweep = Sweep::new(limits);
    for record in records {
        sweep.take(record);
    }
    sweep.finish()
}

#[derive(Debug, Default)]
struct Attempt {
    keeper: u32,
    called: usize,
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
    holder: Option<u32>,
    free_since: Option<BootInstant>,
    token: Option<FencingToken>,
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
            holder: None,
            free_since: None,
            token: None,
            grants: Vec::new(),
            drained: false,
            violations: Vec::new(),
        }
    }

    fn take(&mut self, record: &Record) {
        self.position += 1;
        let at = record.at;
        match record.what {
            What::Calling { attempt, keeper } => {
                let entry = Attempt { keeper, called: self.position, ..Attempt::default() };
                if self.attempts.insert(attempt, entry).is_some() {
                    self.violations.push(Violation::Malformed { attempt });
                }
            }
            What::Joined { attempt } => {
                let joined = Some((self.position, at));
                self.of_pending(attempt, |pending| pending.joined = joined);
            }
            What::Granted { attempt, token, held } => self.granted(attempt, token, held, at),
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
        self.grants.push(Grant { attempt, called: known.called, joined: known.joined.map(|(position, _)| position) });
        if let (Some(free_since), Some((_, joined_at))) = (self.free_since, known.joined) {
            let free_for = at.saturating_duration_since(free_since.max(joined_at));
            if free_for > self.limits.hand_off_max {
                self.violations.push(Violation::SlowHandOff { attempt, free_for });
            }
        }
        if let Some(before) = self.token.filter(|&before| token <= before) {
            self.violations.push(Violation::TokenNotGrowing { attempt, token, before });
        }
        self.token = self.token.max(Some(token));
        if let Some(holder) = self.holder.replace(attempt) {
            self.violations.push(Violation::TwoHolders { holder, second: attempt });
        }
        self.free_since = None;
    }

    fn releasing(&mut self, attempt: u32, at: BootInstant) {
        match self.attempts.get_mut(&attempt) {
            Some(known) if known.outcome == Some(Outcome::Granted) => known.outcome = Some(Outcome::Done),
            _ => self.violations.push(Violation::Malformed { attempt }),
        }
        if self.holder == Some(attempt) {
            self.holder = None;
            self.free_since = Some(at);
        }
    }

    fn upset(&mut self, keeper: u32, at: BootInstant) {
        self.upset.push(keeper);
        let of_keeper = |holder: &u32| self.attempts.get(holder).is_some_and(|known| known.keeper == keeper);
        if self.holder.filter(of_keeper).is_some() {
            self.holder = None;
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

    /// From the last grant back: nobody granted later may have joined before this one was even asked for.
    fn check_order(&mut self) {
        let mut earliest: Option<(usize, u32)> = None;
        for grant in self.grants.iter().rev() {
            if let Some((joined, overtaken)) = earliest
                && joined < grant.called
            {
                let by = grant.attempt;
                self.violations.push(Violation::OutOfOrder { overtaken, by });
            }
            if let Some(joined) = grant.joined {
                earliest = Some(earliest.map_or((joined, grant.attempt), |known| known.min((joined, grant.attempt))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { hand_off_max: Duration::from_secs(1) };

    /// One record a millisecond.
    fn history(whats: &[What]) -> Vec<Record> {
        let at = |position: usize| BootInstant::from_nanos(position as u64 * 1_000_000);
        let record = |(position, what): (usize, &What)| Record { at: at(position), what: what.clone() };
        whats.iter().enumerate().map(record).collect()
    }

    fn calling(attempt: u32) -> What {
        What::Calling { attempt, keeper: attempt }
    }

    fn joined(attempt: u32) -> What {
        What::Joined { attempt }
    }

    fn granted(attempt: u32, token: u64) -> What {
        let token = FencingToken::new(token, 0).unwrap();
        What::Granted { attempt, token, held: true }
    }

    fn releasing(attempt: u32) -> What {
        What::Releasing { attempt }
    }

    const DRAINED: What = What::Drained { left: 0 };

    #[test]
    fn a_history_of_turns_taken_in_order_is_right() {
        let records = history(&[
            calling(1),
            joined(1),
            granted(1, 10),
            calling(2),
            joined(2),
            calling(3),
            joined(3),
            What::GaveUp { attempt: 3 },
            releasing(1),
            granted(2, 11),
            releasing(2),
            DRAINED,
        ]);
        assert_eq!(check(&records, LIMITS), []);
    }

    #[test]
    fn two_holders_at_once_are_found() {
        let records =
            history(&[calling(1), calling(2), granted(1, 10), granted(2, 11), releasing(1), releasing(2), DRAINED]);
        assert_eq!(check(&records, LIMITS), [Violation::TwoHolders { holder: 1, second: 2 }]);
    }

    #[test]
    fn an_overtaken_contender_is_found() {
        let records = history(&[
            calling(1),
            joined(1),
            calling(2),
            joined(2),
            granted(2, 10),
            releasing(2),
            granted(1, 11),
            releasing(1),
            DRAINED,
        ]);
        assert_eq!(check(&records, LIMITS), [Violation::OutOfOrder { overtaken: 1, by: 2 }]);
    }

    #[test]
    fn contenders_that_asked_at_the_same_time_may_be_served_in_any_order() {
        let records = history(&[
            calling(1),
            calling(2),
            joined(1),
            joined(2),
            granted(2, 10),
            releasing(2),
            granted(1, 11),
            releasing(1),
            DRAINED,
        ]);
        assert_eq!(check(&records, LIMITS), []);
    }

    #[test]
    fn one_who_joined_again_is_not_overtaken_by_those_who_came_between() {
        let records = history(&[
            calling(1),
            joined(1),
            What::Upset { keeper: 1 },
            What::Settled { keeper: 1 },
            calling(2),
            joined(2),
            joined(1),
            granted(2, 10),
            releasing(2),
            granted(1, 11),
            releasing(1),
            DRAINED,
        ]);
        assert_eq!(check(&records, LIMITS), []);
    }

    #[test]
    fn a_token_that_does_not_grow_is_found() {
        let records =
            history(&[calling(1), granted(1, 10), releasing(1), calling(2), granted(2, 10), releasing(2), DRAINED]);
        let token = FencingToken::new(10, 0).unwrap();
        let expected = Violation::TokenNotGrowing { attempt: 2, token, before: token };
        assert_eq!(check(&records, LIMITS), [expected]);
    }

    #[test]
    fn a_lost_wake_up_is_found() {
        let records = history(&[calling(1), granted(1, 10), calling(2), joined(2), releasing(1), DRAINED]);
        assert_eq!(check(&records, LIMITS), [Violation::NeverGranted { attempt: 2 }]);
    }

    #[test]
    fn a_late_wake_up_is_found_and_a_long_hold_is_none() {
        let mut records = history(&[
            calling(1),
            granted(1, 10),
            calling(2),
            joined(2),
            releasing(1),
            granted(2, 11),
            releasing(2),
            DRAINED,
        ]);
        let shift = |records: &mut [Record]| {
            for record in records {
                record.at = record.at.saturating_add(Duration::from_secs(3));
            }
        };
        shift(&mut records[4..]);
        assert_eq!(check(&records, LIMITS), []);
        shift(&mut records[5..]);
        let free_for = Duration::from_millis(3_001);
        assert_eq!(check(&records, LIMITS), [Violation::SlowHandOff { attempt: 2, free_for }]);
    }

    #[test]
    fn orphans_and_a_holder_that_never_released_are_found() {
        let records = history(&[calling(1), granted(1, 10), What::Drained { left: 2 }]);
        let expected = [Violation::Orphans { left: 2 }, Violation::NeverReleased { attempt: 1 }];
        assert_eq!(check(&records, LIMITS), expected);
    }

    #[test]
    fn a_history_that_stops_before_its_end_is_not_taken_for_a_right_one() {
        assert_eq!(check(&[], LIMITS), [Violation::NotDrained]);
    }

    #[test]
    fn a_hold_whose_session_is_being_ended_is_not_relied_on() {
        let records = history(&[
            calling(1),
            granted(1, 10),
            calling(2),
            What::Upset { keeper: 1 },
            granted(2, 11),
            What::Settled { keeper: 1 },
            releasing(1),
            releasing(2),
            DRAINED,
        ]);
        assert_eq!(check(&records, LIMITS), []);
    }

    #[test]
    fn records_that_cannot_be_are_found() {
        let records =
            history(&[releasing(1), granted(2, 3), calling(3), calling(3), What::GaveUp { attempt: 3 }, DRAINED]);
        let malformed = [1, 2, 3].map(|attempt| Violation::Malformed { attempt });
        assert_eq!(check(&records, LIMITS), malformed);
    }
}
