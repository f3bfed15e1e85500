//! What all rounds of a test have shown together.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{FencingToken, LossReason};
use lockkeeper_faults::figures;

/// A span of time with a sign, in seconds.
pub(crate) type Span = f64;

/// What happened to one lock in one round.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Which harm was done to which holder, for readers.
    pub(crate) what: String,
    /// When the fault was inflicted.
    pub(crate) struck_at: BootInstant,
    /// The holder's token, and when it last found that it held the lock; `None` for one that was killed.
    pub(crate) token: FencingToken,
    pub(crate) last_held: Option<BootInstant>,
    /// Why the hold ended; `None` if it did not end by itself.
    pub(crate) ended_by: Option<LossReason>,
    /// The rival's grant.
    pub(crate) next_token: FencingToken,
    pub(crate) granted_at: BootInstant,
}

impl Outcome {
    /// How long before the rival's grant the hold had ended; negative if both held.
    pub(crate) fn margin(&self) -> Option<Span> {
        self.last_held.map(|last_held| span(last_held, self.granted_at))
    }

    /// Whether the hold went on until the holder gave the lock back.
    pub(crate) fn was_given_back(&self) -> bool {
        self.last_held.is_some() && self.ended_by.is_none()
    }

    pub(crate) fn is_shared(&self) -> bool {
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
pub(crate) struct Tally {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) took: Duration,
}

impl Tally {
    /// Reports what the rounds have shown, with `more` behind it.
    pub(crate) fn tell(&self, name: &str, more: &str) {
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
    pub(crate) fn check(&self, count: u32) -> Result<(), String> {
        if self.outcomes.len() < count as usize {
            return Err(format!("only {} locks were played with", self.outcomes.len()));
        }
        none_of(self.outcomes.iter().filter(|outcome| outcome.is_shared()), "two held at once")?;
        self.check_tokens()
    }

    /// No lock was handed on later than this after its holder's death, in seconds.
    pub(crate) fn check_handed_on(&self, within: Span) -> Result<(), String> {
        let is_late = |outcome: &&Outcome| outcome.handed_on_after() > within;
        none_of(self.outcomes.iter().filter(is_late), &format!("handed on after more than {within:.2} s"))
    }

    pub(crate) fn check_tokens(&self) -> Result<(), String> {
        none_of(self.outcomes.iter().filter(|outcome| outcome.next_token <= outcome.token), "a token did not grow")
    }
}

pub(crate) fn none_of<'a>(found: impl Iterator<Item = &'a Outcome>, what: &str) -> Result<(), String> {
    let found: Vec<_> = found.map(ToString::to_string).collect();
    if found.is_empty() { Ok(()) } else { Err(format!("{what}:\n{}", found.join("\n"))) }
}

/// The time from `from` to `to`, negative if `to` is earlier.
pub(crate) fn span(from: BootInstant, to: BootInstant) -> Span {
    (to.as_nanos() as f64 - from.as_nanos() as f64) / 1e9
}

/// Plants a hold that outlasts the next grant, a token that does not grow, rounds that are missing, and a late grant.
pub(crate) fn is_a_judge() -> Result<(), String> {
    let token = |grant| FencingToken::new(grant, 0).expect("it is small");
    let outcome = |last_held, next_token| Outcome {
        what: "planted".to_owned(),
        struck_at: BootInstant::from_nanos(0),
        token: token(5),
        last_held: Some(BootInstant::from_nanos(last_held)),
        ended_by: Some(LossReason::Lapsed),
        next_token: token(next_token),
        granted_at: BootInstant::from_nanos(1_000_000),
    };
    let judge = |outcome: Outcome, count| Tally { outcomes: vec![outcome], took: Duration::ZERO }.check(count);
    judge(outcome(999_999, 6), 1)?;
    let planted = [
        (outcome(1_000_001, 6), 1, "two held at once"),
        (outcome(999_999, 5), 1, "a token did not grow"),
        (outcome(999_999, 6), 2, "only 1 locks"),
    ];
    for (outcome, count, expected) in planted {
        match judge(outcome, count) {
            Err(seen) if seen.starts_with(expected) => {}
            judged => return Err(format!("{judged:?} instead of {expected}")),
        }
    }
    let late = Tally { outcomes: vec![outcome(0, 6)], took: Duration::ZERO };
    match (late.check_handed_on(0.001), late.check_handed_on(0.000_9)) {
        (Ok(()), Err(seen)) if seen.starts_with("handed on") => Ok(()),
        judged => Err(format!("{judged:?} of a lock that is handed on after a millisecond")),
    }
}
