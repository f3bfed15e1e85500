//! Rounds: the same play again and again, with other random numbers; and the tally of what they show.

use std::time::Duration;
use std::{fmt, thread};

use lockkeeper_conformance::Random;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{FencingToken, LossReason};
use lockkeeper_faults::{figures, long};

use crate::service::now;

/// Plays a number of rounds in all, on so many threads at the same time; returns what they show. The plain run plays
/// a tenth.
pub fn play<Playing: Future<Output = Vec<Outcome>>>(
    rounds: u32,
    at_once: u32,
    mut random: Random,
    play: impl Fn(u32, Random) -> Playing + Sync,
) -> Tally {
    let rounds = long::rounds(rounds);
    let begun = now();
    let play = &play;
    let outcomes = thread::scope(|scope| {
        let played: Vec<_> = (0..at_once.min(rounds))
            .map(|first| {
                let mut random = random.split();
                scope.spawn(move || {
                    let mut outcomes = Vec::new();
                    for round in (first..rounds).step_by(at_once as usize) {
                        let played = runtime().block_on(play(round, random.split()));
                        played.iter().for_each(|outcome| println!("{outcome}"));
                        outcomes.extend(played);
                    }
                    outcomes
                })
            })
            .collect();
        played
            .into_iter()
            .flat_map(|played| played.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    Tally { outcomes, took: now().saturating_duration_since(begun) }
}

/// A runtime for one round.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// A span of time with a sign, in seconds.
pub type Span = f64;

/// What happened to one lock in one round.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which harm was done to which holder, for readers.
    pub what: String,
    /// When the fault was inflicted.
    pub struck_at: BootInstant,
    /// The holder's token.
    pub token: FencingToken,
    /// When the holder last found that it held the lock; `None` for one that was killed.
    pub last_held: Option<BootInstant>,
    /// Why the hold ended; `None` if it did not end by itself.
    pub ended_by: Option<LossReason>,
    /// The rival's token.
    pub next_token: FencingToken,
    /// When the rival was granted the lock.
    pub granted_at: BootInstant,
}

impl Outcome {
    /// How long before the rival's grant the hold had ended; negative if both held.
    pub fn margin(&self) -> Option<Span> {
        self.last_held.map(|last_held| span(last_held, self.granted_at))
    }

    /// Whether the hold went on until the holder gave the lock back.
    pub fn was_given_back(&self) -> bool {
        self.last_held.is_some() && self.ended_by.is_none()
    }

    /// Whether both held at one moment.
    pub fn is_shared(&self) -> bool {
        self.margin().is_some_and(|margin| margin < 0.0)
    }

    fn handed_on_after(&self) -> Span {
        span(self.struck_at, self.granted_at)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, ended_by, token, next_token, .. } = self;
        write!(f, "{what}: granted after {:.2} s, ", self.handed_on_after())?;
        match (self.margin(), ended_by) {
            (None, _) => write!(f, "the holder was dead; ")?,
            (Some(margin), None) => write!(f, "given back {margin:.3} s before; ")?,
            (Some(margin), Some(reason)) => write!(f, "{reason:?} {margin:.3} s before; ")?,
        }
        write!(f, "tokens {token} and {next_token}")
    }
}

/// The outcomes of all rounds.
#[derive(Debug)]
pub struct Tally {
    /// What happened to each lock.
    pub outcomes: Vec<Outcome>,
    /// How long all rounds took.
    pub took: Duration,
}

impl Tally {
    /// Reports what the rounds have shown, with `more` behind it.
    pub fn tell(&self, name: &str, more: &str) {
        let (count, took) = (self.outcomes.len(), self.took.as_secs_f64());
        let shared = self.outcomes.iter().filter(|outcome| outcome.is_shared()).count();
        // A lock that is given back says nothing about time.
        let deaths = || self.outcomes.iter().filter(|outcome| !outcome.was_given_back());
        let least = deaths().filter_map(Outcome::margin).reduce(f64::min);
        let least = least.map_or_else(String::new, |least| format!("least margin {least:.2} s, "));
        let worst = deaths().map(Outcome::handed_on_after).fold(0.0, f64::max);
        figures::tell(&format!(
            "{name}: {count} in {took:.0} s, {shared} double holds, {least}handed on after {worst:.2} s at most{more}"
        ));
    }

    /// At least so many locks were played with, no two held one at once, and each token is greater than the one before.
    pub fn check(&self, count: u32) -> Result<(), String> {
        if self.outcomes.len() < count as usize {
            return Err(format!("only {} locks were played with", self.outcomes.len()));
        }
        none_of(self.outcomes.iter().filter(|outcome| outcome.is_shared()), "two held at once")?;
        self.check_tokens()
    }

    /// No lock was handed on later than this after its holder's death, in seconds.
    pub fn check_handed_on(&self, within: Span) -> Result<(), String> {
        let is_late = |outcome: &&Outcome| outcome.handed_on_after() > within;
        none_of(self.outcomes.iter().filter(is_late), &format!("handed on after more than {within:.2} s"))
    }

    /// Each token is greater than the one before.
    pub fn check_tokens(&self) -> Result<(), String> {
        none_of(self.outcomes.iter().filter(|outcome| outcome.next_token <= outcome.token), "a token did not grow")
    }
}

/// Says what was found that should not be.
pub fn none_of<'a>(found: impl Iterator<Item = &'a Outcome>, what: &str) -> Result<(), String> {
    let found: Vec<_> = found.map(ToString::to_string).collect();
    if found.is_empty() { Ok(()) } else { Err(format!("{what}:\n{}", found.join("\n"))) }
}

/// The time from `from` to `to`, negative if `to` is earlier.
pub fn span(from: BootInstant, to: BootInstant) -> Span {
    (to.as_nanos() as f64 - from.as_nanos() as f64) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(last_held: u64, next_token: u64) -> Outcome {
        let token = |grant| FencingToken::new(grant, 0).expect("it is small");
        Outcome {
            what: "planted".to_owned(),
            struck_at: BootInstant::from_nanos(0),
            token: token(5),
            last_held: Some(BootInstant::from_nanos(last_held)),
            ended_by: Some(LossReason::Lapsed),
            next_token: token(next_token),
            granted_at: BootInstant::from_nanos(1_000_000),
        }
    }

    fn judge(outcome: Outcome, count: u32) -> Result<(), String> {
        Tally { outcomes: vec![outcome], took: Duration::ZERO }.check(count)
    }

    #[test]
    fn a_hold_that_outlasts_the_next_grant_a_token_that_does_not_grow_and_rounds_that_are_missing_are_seen() {
        judge(outcome(999_999, 6), 1).expect("all is well");
        for (outcome, count, expected) in [
            (outcome(1_000_001, 6), 1, "two held at once"),
            (outcome(999_999, 5), 1, "a token did not grow"),
            (outcome(999_999, 6), 2, "only 1 locks"),
        ] {
            let seen = judge(outcome, count).expect_err(expected);
            assert!(seen.starts_with(expected), "{seen} instead of {expected}");
        }
    }

    #[test]
    fn a_late_grant_is_seen() {
        let late = Tally { outcomes: vec![outcome(0, 6)], took: Duration::ZERO };
        late.check_handed_on(0.001).expect("after a millisecond");
        let seen = late.check_handed_on(0.000_9).expect_err("it came later");
        assert!(seen.starts_with("handed on"), "{seen}");
    }
}
