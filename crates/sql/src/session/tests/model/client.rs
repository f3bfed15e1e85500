//! A session's process: what it asks for, and what it makes of the answers, by the rules of `session`. Pure.
//!
//! It has one place at most, for which it waits as the recipes do.

use std::time::Duration;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Belief, SessionTiming as _};

use super::answer::{Answer, Request};
use super::flaw::Flaw;
use super::server::{number_of, session_of};
use crate::session::beat::not_standing;
use crate::session::others::Observation;
use crate::session::settling::{DataState, Unsettled, lacked, still_served};
use crate::timing::{SessionBeat, Timing};

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum PlaceStage {
    Joining,
    /// Behind this contender, if that is known over this connection; whether it was seen first in the queue.
    Waiting(Option<(Ticket, bool)>),
    /// None is ahead of it.
    First,
    Held,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct ModelPlace {
    pub(super) ticket: Ticket,
    pub(super) token: i64,
    pub(super) stage: PlaceStage,
}

/// A connection.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct ModelLink {
    pub(super) epoch: i64,
    pub(super) stage: LinkStage,
    /// The state of the data that was greeted over it.
    pub(super) greeted: Option<u64>,
    /// The one under which it was put to use.
    served: Option<u64>,
    pub(super) observation: Observation,
    /// The contender that is waited for, if the last beat showed it.
    owned: Option<Ticket>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum LinkStage {
    /// The session is taken over to it. What is known of the state of the data meanwhile.
    Resuming(Option<Unsettled>),
    Settling(Unsettled),
    Attached,
}

/// What a process does next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Next {
    Nothing,
    Ask(Request),
    /// It says that the data lack what it had.
    Doubt,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct ModelClient {
    pub(super) number: usize,
    pub(super) timing: Timing,
    flaw: Option<Flaw>,
    pub(super) belief: Belief,
    /// Whether the session is lost.
    pub(super) is_over: bool,
    pub(super) is_stopped: bool,
    /// Whether it wants the lock, and was not granted it yet.
    pub(super) wants: bool,
    pub(super) place: Option<ModelPlace>,
    places: u128,
    /// The places that are given up, and may still be stored.
    leaving: Vec<Ticket>,
    pub(super) link: Option<ModelLink>,
    links: i64,
    last_beat: i64,
    /// What was seen over the connection before, where that is wrong.
    former: Option<Observation>,
    /// The state of the data that was not settled when it was seen last.
    unsettled: Option<Unsettled>,
    /// The greatest timeout of sessions that it was told of.
    timeout_max_ms: u64,
}

impl ModelClient {
    /// Begins with a session that was opened at this moment.
    pub(super) fn new(
        number: usize,
        timing: Timing,
        flaw: Option<Flaw>,
        opened_at: BootInstant,
        timeout_max_ms: u64,
    ) -> Self {
        let mut client = Self {
            number,
            timing,
            flaw,
            belief: Belief::until(opened_at),
            is_over: false,
            is_stopped: false,
            wants: false,
            place: None,
            places: 0,
            leaving: Vec::new(),
            link: None,
            links: 1,
            last_beat: 1,
            former: None,
            unsettled: None,
            timeout_max_ms,
        };
        client.prove(opened_at, opened_at);
        let link = client.new_link(LinkStage::Attached);
        client.link = Some(ModelLink { greeted: Some(0), served: Some(0), ..link });
        client
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn new_link(&self, stage: LinkStage) -> ModelLink {
        let observation = Observation::new(number_of(self.number));
        ModelLink { epoch: self.links, stage, greeted: None, served: None, observation, owned: None }
    }

    /// Whether it believes that it holds.
    pub(super) fn believes(&self, now: BootInstant) -> bool {
        self.is_held() && !self.is_over && now < self.belief.safe_until()
    }

    pub(super) fn is_held(&self) -> bool {
        self.place.is_some_and(|place| place.stage == PlaceStage::Held)
    }

    pub(super) fn is_attached(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.stage == LinkStage::Attached)
    }

    fn prove(&mut self, sent_at: BootInstant, now: BootInstant) {
        let (from, span) = match self.flaw {
            Some(Flaw::BelievesFromAnswers) => (now, self.timing.timeout),
            Some(Flaw::LeavesMarginsOut) => (sent_at, self.timing.timeout),
            _ => (sent_at, self.timing.belief()),
        };
        self.belief.prove(from, span);
    }

    /// Notes that the time of its belief is over.
    pub(super) fn lapse(&mut self, now: BootInstant) {
        if now >= self.belief.safe_until() {
            self.end();
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        self.place = None;
    }

    fn next_beat(&mut self) -> i64 {
        self.last_beat += 1;
        self.last_beat
    }

    /// Opens another connection; returns what is asked over it first.
    pub(super) fn connect(&mut self) -> [Request; 2] {
        self.links += 1;
        let mut link = self.new_link(LinkStage::Resuming(None));
        if let Some(former) = self.former.take() {
            link.observation = former;
        }
        self.link = Some(link);
        let (epoch, beat) = (self.links, self.next_beat());
        let kept = self.place.map(|place| place.ticket);
        [Request::Greet { is_new: true }, Request::Resume { epoch, beat, kept }]
    }

    /// Notes that its connection is lost.
    pub(super) fn detach(&mut self) {
        let former = self.link.take();
        if self.has(Flaw::ReapsUnsettledByOldSights) {
            self.former = former.map(|link| link.observation);
        }
        if let Some(place) = &mut self.place
            && let PlaceStage::Waiting(_) = place.stage
        {
            place.stage = PlaceStage::Waiting(None);
        }
    }

    pub(super) fn beat(&mut self) -> Option<Request> {
        let epoch = self.link.as_ref()?.epoch;
        let beat = self.next_beat();
        let own = self.place.filter(|place| place.stage != PlaceStage::Joining).map(|place| place.ticket);
        Some(Request::Beat { epoch, beat, own, awaited: self.awaited() })
    }

    fn awaited(&self) -> Option<Ticket> {
        match self.place?.stage {
            PlaceStage::Waiting(ahead) => ahead.map(|(ticket, _)| ticket),
            _ => None,
        }
    }

    /// Takes a place; it is asked for once it can be.
    pub(super) fn join(&mut self) -> Option<Request> {
        self.wants = true;
        if self.place.is_none() {
            self.places += 1;
            let session = u128::try_from(self.number).expect("few sessions");
            let ticket = Ticket::from_bits((session << 64) | self.places);
            self.place = Some(ModelPlace { ticket, token: 0, stage: PlaceStage::Joining });
        }
        let epoch = self.link.as_ref().filter(|_| self.is_attached())?.epoch;
        Some(Request::Join { epoch, ticket: self.place?.ticket })
    }

    /// Gives its place up; that is asked for once it can be.
    pub(super) fn leave(&mut self) -> Option<Request> {
        self.wants = false;
        self.leaving.extend(self.place.take().map(|place| place.ticket));
        self.leaving.first().copied().filter(|_| self.is_attached()).map(Request::Leave)
    }

    pub(super) fn look(&self) -> Option<Request> {
        self.place.map(|place| Request::Look(place.ticket))
    }

    /// Takes in an answer over its connection, received at this moment.
    pub(super) fn hear(&mut self, request: &Request, answer: &Answer, sent_at: BootInstant, now: BootInstant) -> Next {
        match request {
            Request::Greet { is_new } => self.greeted(answer, *is_new, now),
            Request::Settle(state) if answer.word == "ok" => self.attach(state.parse().ok()),
            Request::Settle(_) => Next::Ask(Request::Greet { is_new: false }),
            Request::Resume { kept, .. } => self.resumed(answer, *kept, sent_at, now),
            Request::Beat { own, .. } => {
                let next = self.beaten(answer, *own, sent_at, now);
                self.leave_another_state(answer);
                next
            }
            Request::Reap(dead) => self.reaped(answer, dead, now),
            Request::Join { ticket, .. } | Request::Look(ticket) => {
                if self.has(Flaw::LooksProve) && answer.word == "ok" {
                    self.prove(sent_at, now);
                }
                self.shown(answer, *ticket, now)
            }
            Request::Leave(ticket) => {
                self.leaving.retain(|leaving| leaving != ticket);
                self.go_on()
            }
            Request::Limit { .. } => Next::Ask(Request::Greet { is_new: false }),
            Request::Doubt(_) => Next::Nothing,
        }
    }

    fn greeted(&mut self, answer: &Answer, is_new: bool, now: BootInstant) -> Next {
        let mut before = self.unsettled.clone();
        if let Some(before) = before.as_mut().filter(|_| self.has(Flaw::CountsForAnotherState)) {
            before.state = answer.rows()[0].ask.clone().expect("its name");
        }
        let state = DataState::read(&answer.rows(), now, before.as_ref()).expect("such an answer");
        let mut unsettled = state.unsettled().cloned();
        let is_new_to_us = |one: &&mut Unsettled| before.as_ref().is_none_or(|before| before.state != one.state);
        if let Some(unsettled) = unsettled.as_mut().filter(is_new_to_us) {
            match self.flaw {
                Some(Flaw::SettlesAtOnce) => unsettled.settles_at = now,
                Some(Flaw::WaitsOwnTimeout) => unsettled.settles_at = now.saturating_add(self.timing.doubt()),
                _ => {}
            }
        }
        self.unsettled.clone_from(&unsettled);
        let Some(link) = &mut self.link else { return Next::Nothing };
        if is_new {
            link.greeted = answer.state;
        }
        match (unsettled, is_new) {
            (unsettled, true) => link.stage = LinkStage::Resuming(unsettled),
            (Some(unsettled), false) => {
                link.stage = LinkStage::Settling(unsettled);
                return self.remind();
            }
            (None, false) => return self.attach(answer.state),
        }
        Next::Nothing
    }

    /// Puts its connection to use under this state of the data: what has waited for it is asked.
    fn attach(&mut self, state: Option<u64>) -> Next {
        let Some(link) = &mut self.link else { return Next::Nothing };
        (link.stage, link.served) = (LinkStage::Attached, state);
        self.go_on()
    }

    /// What is asked next over a connection that can be used.
    fn go_on(&mut self) -> Next {
        if let Some(leaving) = self.leaving.first() {
            return Next::Ask(Request::Leave(*leaving));
        }
        let request = match self.place.map(|place| place.stage) {
            Some(PlaceStage::Joining) => self.join(),
            Some(PlaceStage::Waiting(_)) => self.look(),
            _ => None,
        };
        request.map_or(Next::Nothing, Next::Ask)
    }

    /// Sets the longest timeout again, if the data that it waits for do not know it.
    pub(super) fn remind(&self) -> Next {
        let timeout_max_ms = self.timeout_max_ms;
        match self.link.as_ref().filter(|_| !self.is_over).map(|link| &link.stage) {
            Some(LinkStage::Settling(unsettled))
                if unsettled.forgets(Duration::from_millis(timeout_max_ms)) && !self.has(Flaw::ForgetsLongest) =>
            {
                Next::Ask(Request::Limit { timeout_max_ms })
            }
            _ => Next::Nothing,
        }
    }

    /// Whether an answer shows that the session stands; else what is done.
    fn stand(&mut self, answer: &Answer, now: BootInstant) -> Result<(), Next> {
        match answer.word {
            "ok" => Ok(()),
            "gone" => {
                let is_believed = now < self.belief.safe_until();
                self.end();
                Err(self.doubt(is_believed))
            }
            _ => {
                self.detach();
                Err(Next::Nothing)
            }
        }
    }

    fn doubt(&self, misses: bool) -> Next {
        if misses && !self.has(Flaw::NeverDoubts) { Next::Doubt } else { Next::Nothing }
    }

    fn resumed(&mut self, answer: &Answer, kept: Option<Ticket>, sent_at: BootInstant, now: BootInstant) -> Next {
        if let Err(next) = self.stand(answer, now) {
            return next;
        }
        self.prove(sent_at, now);
        let missing = not_standing(&answer.rows(), kept.into_iter().collect());
        let next = self.miss(answer, &missing);
        let Some(link) = &mut self.link else { return next };
        let LinkStage::Resuming(unsettled) = &link.stage else { return next };
        match (unsettled.clone(), link.greeted) {
            (Some(unsettled), _) => {
                link.stage = LinkStage::Settling(unsettled);
                if next == Next::Nothing { self.remind() } else { next }
            }
            (None, state) => self.attach(state),
        }
    }

    /// Takes in which contenders the data lack.
    fn miss(&mut self, answer: &Answer, missing: &[Ticket]) -> Next {
        let stands = |place: ModelPlace| place.stage != PlaceStage::Joining;
        let own = self.place.filter(|place| stands(*place)).map(|place| place.ticket);
        let is_lacked = lacked(&answer.rows(), missing).any(|ticket| Some(*ticket) == own);
        let next = self.doubt(is_lacked);
        if own.is_some_and(|own| missing.contains(&own)) && !self.has(Flaw::HoldsWhatIsMissing) {
            self.place = None;
        }
        next
    }

    fn beaten(&mut self, answer: &Answer, own: Option<Ticket>, sent_at: BootInstant, now: BootInstant) -> Next {
        if answer.word == "busy" {
            return Next::Nothing;
        }
        if let Err(next) = self.stand(answer, now) {
            return next;
        }
        self.prove(sent_at, now);
        let (early, strict) = (self.has(Flaw::DoubtsEarly), self.has(Flaw::LeavesMarginsOut));
        let Some(link) = &mut self.link else { return Next::Nothing };
        let seen_at = if self.flaw == Some(Flaw::ObservesFromAsking) { sent_at } else { now };
        let beats =
            answer.beats.iter().map(|shown| SessionBeat { timing: flawed(shown.timing, early, strict), ..*shown });
        link.observation.shown(beats, seen_at);
        link.owned = answer.owned;
        let missing: Vec<_> = answer.missing.iter().copied().filter(|ticket| Some(*ticket) == own).collect();
        let is_early = self.has(Flaw::AbsenceProves) && self.awaited().is_some_and(|one| answer.missing.contains(&one));
        let next = if is_early { self.departed(now) } else { self.miss(answer, &missing) };
        if next != Next::Nothing || self.is_held() {
            return next;
        }
        match self.awaited().filter(|awaited| answer.missing.contains(awaited)) {
            Some(_) => self.departed(now),
            None => {
                self.take_grant(now);
                Next::Nothing
            }
        }
    }

    /// Gives up a connection that leads to another state of the data than the one under which it was put to use.
    fn leave_another_state(&mut self, answer: &Answer) {
        let served = self.link.as_ref().and_then(|link| link.served).filter(|_| answer.word == "ok");
        let Some(served) = served else { return };
        match still_served(&served.to_string(), &answer.rows()) {
            Ok(()) => self.timeout_max_ms = answer.timeout_ms,
            Err(_) if self.has(Flaw::StaysInAnotherState) => {}
            Err(_) => self.detach(),
        }
    }

    /// Takes in that the contender ahead is gone.
    fn departed(&mut self, now: BootInstant) -> Next {
        let Some(place) = &mut self.place else { return Next::Nothing };
        let PlaceStage::Waiting(Some((_, was_first))) = place.stage else { return Next::Nothing };
        if !was_first {
            place.stage = PlaceStage::Waiting(None);
            return Next::Ask(Request::Look(place.ticket));
        }
        place.stage = PlaceStage::First;
        self.take_grant(now);
        Next::Nothing
    }

    /// Takes what it was granted, if it is believed for long enough.
    fn take_grant(&mut self, now: BootInstant) {
        let is_worth = now.saturating_add(self.timing.worth_granting()) <= self.belief.safe_until();
        if let Some(place) = &mut self.place
            && place.stage == PlaceStage::First
            && is_worth
            && self.link.is_some()
        {
            place.stage = PlaceStage::Held;
            self.wants = false;
        }
    }

    fn reaped(&mut self, answer: &Answer, dead: &SessionBeat, now: BootInstant) -> Next {
        let Some(link) = &mut self.link else { return Next::Nothing };
        if matches!(answer.word, "removed" | "alive") {
            link.observation.forget(dead.session);
        }
        let owner = link.owned.map(session_of).map(number_of);
        if answer.word == "removed" && owner == Some(dead.session) {
            return self.departed(now);
        }
        Next::Nothing
    }

    fn shown(&mut self, answer: &Answer, ticket: Ticket, now: BootInstant) -> Next {
        match answer.word {
            "ok" => {}
            "busy" => return Next::Nothing,
            "gone" => return self.stand(answer, now).err().unwrap_or(Next::Nothing),
            // The connection leads to another state of the data, or is not the latest.
            _ => {
                self.detach();
                return Next::Nothing;
            }
        }
        let Some(place) = self.place.as_mut().filter(|place| place.ticket == ticket) else { return Next::Nothing };
        let Some(ahead) = &answer.ahead else {
            self.place = None;
            return Next::Nothing;
        };
        place.token = answer.token.unwrap_or(place.token);
        if place.stage != PlaceStage::Held {
            place.stage = match ahead.last() {
                Some(last) => PlaceStage::Waiting(Some((*last, ahead.len() == 1))),
                None => PlaceStage::First,
            };
            self.take_grant(now);
        }
        Next::Nothing
    }
}

fn flawed(timing: Timing, early: bool, strict: bool) -> Timing {
    let mut timeout = timing.timeout;
    if early {
        timeout /= 2;
    }
    // What doubt adds to the timeout is taken off.
    if strict {
        timeout -= timing.margin();
    }
    Timing { timeout }
}
