//! A client of one lock with its real belief, its call that is under way, and wrong rules.

use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Belief, SessionTiming as _};

use super::service::{Answer, Call};
use crate::session::belief::Timing;

/// The wrong rules that the search has to find.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum ClientBug {
    /// A renewal counts from its answer, and not from its sending.
    CountsFromAnswers,
    /// Belief ends no earlier for clocks that differ in speed.
    NoMargin,
    /// Belief ends no earlier for jumps of the server's clock.
    NoGuard,
    /// A session that is gone counts as renewed.
    RefusalsRenew,
    /// A call counts that too few copies have.
    CountsWithoutCopies,
    /// A place that a renewal finds to be gone is still held.
    IgnoresMissing,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Stage {
    Sent,
    /// With the answer, and whether the copies have it.
    Executed(Answer, Copied),
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Copied {
    NotYet,
    Yes,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Pending {
    pub(super) call: Call,
    pub(super) sent_at: BootInstant,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Place {
    None,
    Waits,
    /// Holds with this token.
    Holds(u64),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Client {
    timing: Timing,
    bug: Option<ClientBug>,
    waits_for_copies: bool,
    /// Counts its sessions.
    pub(super) number: u8,
    /// `None` if there is no session.
    belief: Option<Belief>,
    pub(super) place: Place,
    pub(super) pending: Option<Pending>,
}

impl Client {
    pub(super) fn new(timeout_s: u64, waits_for_copies: bool, bug: Option<ClientBug>) -> Self {
        let timing = Timing { timeout: Duration::from_secs(timeout_s) };
        Self { timing, bug, waits_for_copies, number: 0, belief: None, place: Place::None, pending: None }
    }

    fn has(&self, bug: ClientBug) -> bool {
        self.bug == Some(bug)
    }

    /// What it may call for; a later call takes the place of one that is given up.
    pub(super) fn calls(&self) -> &'static [Call] {
        match (self.belief, self.place) {
            (None, _) => &[Call::Open],
            (_, Place::None) => &[Call::Renew, Call::Join],
            (_, Place::Waits) => &[Call::Renew, Call::Look],
            (_, Place::Holds(_)) => &[Call::Renew],
        }
    }

    pub(super) fn send(&mut self, call: Call, now: BootInstant) {
        if call == Call::Open {
            self.number += 1;
        }
        self.pending = Some(Pending { call, sent_at: now, stage: Stage::Sent });
    }

    /// Takes in the answer to the call, if it is there. Returns the token of a grant.
    pub(super) fn hear(&mut self, now: BootInstant) -> Option<u64> {
        let Some(Pending { call, sent_at, stage: Stage::Executed(answer, copied) }) = self.pending.take() else {
            return None;
        };
        if self.waits_for_copies && copied == Copied::NotYet && !self.has(ClientBug::CountsWithoutCopies) {
            return None;
        }
        match answer {
            Answer::Gone if !self.has(ClientBug::RefusalsRenew) => {
                (self.belief, self.place) = (None, Place::None);
                None
            }
            Answer::Gone => {
                self.renewed(sent_at, now);
                None
            }
            Answer::Stands { place, is_first } => {
                if call != Call::Look {
                    self.renewed(sent_at, now);
                }
                self.placed(call, place, is_first)
            }
        }
    }

    fn renewed(&mut self, sent_at: BootInstant, now: BootInstant) {
        let sent_at = if self.has(ClientBug::CountsFromAnswers) { now } else { sent_at };
        let span = self.belief_span();
        match &mut self.belief {
            Some(belief) => belief.prove(sent_at, span),
            None => self.belief = Some(Belief::until(sent_at.saturating_add(span))),
        }
    }

    /// For how long a renewal is believed.
    pub(super) fn belief_span(&self) -> Duration {
        let more = match self.bug {
            Some(ClientBug::NoMargin) => self.timing.margin(),
            Some(ClientBug::NoGuard) => self.timing.guard(),
            _ => Duration::ZERO,
        };
        self.timing.belief() + more
    }

    fn placed(&mut self, call: Call, place: Option<u64>, is_first: bool) -> Option<u64> {
        match (self.place, place) {
            (Place::Waits | Place::Holds(_), None) if !self.has(ClientBug::IgnoresMissing) => self.place = Place::None,
            (Place::None, Some(_)) if call == Call::Join => self.place = Place::Waits,
            _ => {}
        }
        let token = place.filter(|_| is_first && call != Call::Renew && self.place == Place::Waits)?;
        self.place = Place::Holds(token);
        Some(token)
    }

    /// Until when the session is believed, if it is now.
    pub(super) fn believed_until(&self, now: BootInstant) -> Option<BootInstant> {
        self.belief.map(|belief| belief.safe_until()).filter(|until| *until > now)
    }

    pub(super) fn holds(&self, now: BootInstant) -> bool {
        matches!(self.place, Place::Holds(_)) && self.believed_until(now).is_some()
    }
}
