//! Figures of one round, out of what both contenders answered and when: pure, so that a made-up round can be judged.
//!
//! A contender that was heard to say yes twice is taken to have believed all the time between, but for the time for
//! which its process was stopped. What it believed behind its last yes is not counted.

use std::time::Duration;

use lockkeeper_core::clock::BootInstant;

/// An answer to the question whether it holds the lock, and when it was given.
pub(crate) type Answer = (BootInstant, bool);

/// A time from one moment to another.
pub(crate) type Interval = (BootInstant, BootInstant);

/// What was heard of one contender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Testimony {
    /// When it was granted the lock, and with which token.
    pub(crate) granted: Option<(BootInstant, Option<u64>)>,
    /// In the order in which they were given.
    pub(crate) answers: Vec<Answer>,
    /// When its process did not run.
    pub(crate) stopped: Option<Interval>,
}

impl Testimony {
    /// The times for which it believed that it held the lock.
    fn believed(&self) -> Vec<Interval> {
        let pairs = self.answers.windows(2).filter(|pair| pair[0].1 && pair[1].1);
        pairs.flat_map(|pair| self.running((pair[0].0, pair[1].0))).collect()
    }

    /// The parts of an interval in which its process ran.
    fn running(&self, (from, to): Interval) -> Vec<Interval> {
        let Some((stop, go_on)) = self.stopped else { return vec![(from, to)] };
        let parts = [(from, to.min(stop)), (from.max(go_on), to)];
        parts.into_iter().filter(|(from, to)| from < to).collect()
    }

    /// When it first said no behind its last yes: it was told then.
    pub(crate) fn told_at(&self) -> Option<BootInstant> {
        let last_yes = self.answers.iter().rposition(|(_, believes)| *believes)?;
        self.answers.get(last_yes + 1).map(|(at, _)| *at)
    }
}

/// For how long both believed that they held the lock.
pub(crate) fn shared(first: &Testimony, second: &Testimony) -> Duration {
    let (first, second) = (first.believed(), second.believed());
    let (mut ours, mut theirs) = (first.iter().peekable(), second.iter().peekable());
    let mut sum = Duration::ZERO;
    // Both are in order: what ends first meets nothing that comes later.
    while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
        sum += a.1.min(b.1).saturating_duration_since(a.0.max(b.0));
        if a.1 < b.1 {
            ours.next()
        } else {
            theirs.next()
        };
    }
    sum
}

/// Whether the holder was told that it no longer held the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Told {
    /// It was killed.
    Dead,
    /// It still believed at the end of the round.
    Never,
    /// So many seconds behind the next grant; negative if before it.
    BehindGrant(f64),
    /// So many seconds behind the moment at which its process went on.
    BehindGoingOn(f64),
    /// So many seconds behind the fault; no other was granted the lock.
    BehindFault(f64),
}

/// What one round showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// For how long both believed that they held the lock, in seconds.
    pub(crate) shared_s: f64,
    /// How long after the fault the next was granted the lock, in seconds; `None` if it was not.
    pub(crate) next_s: Option<f64>,
    pub(crate) told: Told,
    /// The tokens of both grants, where there are tokens.
    pub(crate) tokens: Option<(u64, u64)>,
}

impl Outcome {
    /// Judges a round whose fault struck at this time.
    pub(crate) fn of(struck_at: BootInstant, is_dead: bool, holder: &Testimony, waiter: &Testimony) -> Self {
        let next = waiter.granted;
        let told = match (is_dead, holder.told_at(), holder.stopped, next) {
            (true, ..) => Told::Dead,
            (_, None, ..) => Told::Never,
            (_, Some(at), Some((_, went_on_at)), _) => Told::BehindGoingOn(seconds(went_on_at, at)),
            (_, Some(at), None, Some((granted_at, _))) => Told::BehindGrant(seconds(granted_at, at)),
            (_, Some(at), None, None) => Told::BehindFault(seconds(struck_at, at)),
        };
        let token = |testimony: &Testimony| testimony.granted.and_then(|(_, token)| token);
        Self {
            shared_s: shared(holder, waiter).as_secs_f64(),
            next_s: next.map(|(at, _)| seconds(struck_at, at)),
            told,
            tokens: token(holder).zip(token(waiter)),
        }
    }

    /// Whether the holder held the lock to the end, and no other did.
    pub(crate) fn is_kept(&self) -> bool {
        self.next_s.is_none() && self.told == Told::Never
    }
}

/// The seconds from one moment to another, negative if that is earlier.
fn seconds(from: BootInstant, to: BootInstant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() - from.saturating_duration_since(to).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_nanos(seconds * 1_000_000_000)
    }

    /// A contender that is granted the lock, and answers every second: yes until `last_yes`, and no until `last_no`.
    fn contender(granted: u64, last_yes: u64, last_no: u64) -> Testimony {
        let answers = (granted..=last_no).map(|second| (at(second), second <= last_yes)).collect();
        Testimony { granted: Some((at(granted), Some(granted))), answers, stopped: None }
    }

    fn without_answers(mut testimony: Testimony, from: u64, to: u64) -> Testimony {
        testimony.answers.retain(|(answered_at, _)| *answered_at <= at(from) || *answered_at >= at(to));
        testimony
    }

    #[test]
    fn two_holders_are_counted_from_the_second_grant_to_the_first_holders_last_yes() {
        let outcome = Outcome::of(at(10), false, &contender(0, 17, 20), &contender(14, 30, 30));
        assert_eq!(outcome.shared_s, 3.0);
        assert_eq!(outcome.next_s, Some(4.0));
        assert_eq!(outcome.told, Told::BehindGrant(4.0));
        assert_eq!(outcome.tokens, Some((0, 14)));
    }

    #[test]
    fn a_holder_that_is_told_first_shares_nothing() {
        let outcome = Outcome::of(at(10), false, &contender(0, 11, 20), &contender(14, 30, 30));
        assert_eq!((outcome.shared_s, outcome.told), (0.0, Told::BehindGrant(-2.0)));
    }

    #[test]
    fn a_stopped_process_believes_nothing_and_what_it_says_yes_to_when_it_goes_on_counts() {
        let mut holder = without_answers(contender(0, 22, 30), 10, 20);
        holder.stopped = Some((at(10), at(19)));
        let outcome = Outcome::of(at(10), false, &holder, &contender(14, 30, 30));
        // From going on at 19 to the last yes at 22.
        assert_eq!((outcome.shared_s, outcome.told), (3.0, Told::BehindGoingOn(4.0)));
        let mut told = without_answers(contender(0, 10, 30), 10, 20);
        told.stopped = Some((at(10), at(19)));
        let outcome = Outcome::of(at(10), false, &told, &contender(14, 30, 30));
        assert_eq!((outcome.shared_s, outcome.told), (0.0, Told::BehindGoingOn(1.0)));
    }

    #[test]
    fn a_question_that_is_not_answered_is_no_belief_and_one_that_is_answered_with_yes_later_is() {
        let next = contender(12, 30, 30);
        let silent = contender(0, 10, 10);
        assert_eq!(shared(&silent, &next), Duration::ZERO);
        let late = without_answers(contender(0, 16, 16), 10, 16);
        assert_eq!(shared(&late, &next), Duration::from_secs(4));
    }

    #[test]
    fn belief_that_comes_back_counts_again_and_is_told_at_the_end_alone() {
        let mut holder = contender(0, 20, 30);
        holder.answers[12].1 = false;
        holder.answers[13].1 = false;
        let next = contender(10, 30, 30);
        // From 10 to 11 and from 14 to 20.
        assert_eq!(shared(&holder, &next), Duration::from_secs(7));
        assert_eq!(holder.told_at(), Some(at(21)));
    }

    #[test]
    fn a_lock_that_none_other_gets_is_kept_or_its_holder_is_told() {
        let none = Testimony::default();
        assert!(Outcome::of(at(10), false, &contender(0, 30, 30), &none).is_kept());
        let told = Outcome::of(at(10), false, &contender(0, 12, 30), &none);
        assert!(!told.is_kept());
        assert_eq!(told.told, Told::BehindFault(3.0));
        assert!(!Outcome::of(at(10), true, &contender(0, 10, 10), &none).is_kept());
    }
}
