//! Two or three sessions at one database, all that can happen to them, and what must be true.
//!
//! Time passes by a second, or to the next moment at which something becomes due or is over. What a process does by the
//! clock it does at that very moment, unless it stands still; when it beats, the schedule says.

use std::time::Duration;

use lockkeeper_conformance::schedules::ServiceModel;
use lockkeeper_core::clock::BootInstant;

use super::actions::{Action, Menu};
use super::answer::{Answer, Request};
use super::client::{LinkStage, ModelClient, ModelPlace, Next, PlaceStage};
use super::server::{ModelServer, WITNESS, number_of};
use crate::timing::{BRIEF, Timing};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Message {
    pub(super) client: usize,
    epoch: i64,
    request: Request,
    sent_at: BootInstant,
    answer: Option<Answer>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct World {
    pub(super) menu: Menu,
    pub(super) now_ns: u64,
    pub(super) server: ModelServer,
    pub(super) clients: Vec<ModelClient>,
    pub(super) messages: Vec<Message>,
    pub(super) failures: usize,
    /// The greatest token of a hold.
    granted: i64,
    /// Until when those are back that miss what older data lack.
    back_by_ns: Option<u64>,
    /// The rule that was broken first, and how.
    wrong: Option<String>,
}

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MS;

/// What a session's clock shows at first.
fn begun_ns(client: usize) -> u64 {
    (u64::try_from(client).expect("few sessions") + 1) * 1_000 * SECOND
}

impl World {
    pub(super) fn new(menu: Menu) -> Self {
        let timing = |&timeout_ms: &u64| Timing { timeout: Duration::from_millis(timeout_ms) };
        let timings: Vec<_> = menu.timeouts_ms.iter().map(timing).collect();
        let mut world = Self {
            menu,
            now_ns: 0,
            server: ModelServer::new(menu.kind, menu.flaw, &timings),
            clients: Vec::new(),
            messages: Vec::new(),
            failures: 0,
            granted: 0,
            back_by_ns: None,
            wrong: None,
        };
        let timeout_max_ms = *menu.timeouts_ms.iter().max().expect("there are sessions");
        for (number, timing) in timings.into_iter().enumerate() {
            let opened_at = world.clock(number);
            world.clients.push(ModelClient::new(number, timing, menu.flaw, opened_at, timeout_max_ms));
        }
        if menu.is_raised {
            world.server.forget_longest();
        }
        for &action in menu.before {
            world.act(action).expect("what has happened before is right");
        }
        world.failures = 0;
        world
    }

    /// A session's clock. Each began elsewhere.
    pub(super) fn clock(&self, client: usize) -> BootInstant {
        BootInstant::from_nanos(begun_ns(client) + self.now_ns * self.menu.speeds[client] / 1_000)
    }

    /// The first moment at which a session's clock shows this.
    fn moment(&self, client: usize, shown: BootInstant) -> u64 {
        (shown.as_nanos().saturating_sub(begun_ns(client)) * 1_000).div_ceil(self.menu.speeds[client]).max(self.now_ns)
    }

    pub(super) fn runs(&self, client: usize) -> bool {
        let client = &self.clients[client];
        !client.is_stopped && !client.is_over
    }

    fn has_message(&self, client: usize, is_answered: bool) -> bool {
        self.messages.iter().any(|message| message.client == client && message.answer.is_some() == is_answered)
    }

    fn is_taken(&self, client: usize) -> bool {
        self.clients[client].link.as_ref().is_some_and(|link| !matches!(link.stage, LinkStage::Resuming(_)))
    }

    pub(super) fn can(&self, action: Action) -> bool {
        let may_fail = self.failures < self.menu.failures_max;
        match action {
            Action::Beat(client) | Action::SendBeat(client) => self.runs(client) && self.is_taken(client),
            Action::Join(client) | Action::SendJoin(client) => {
                self.runs(client) && self.clients[client].place.is_none()
            }
            Action::Leave(client) => self.runs(client) && self.clients[client].place.is_some(),
            Action::Look(client) | Action::SendLook(client) => {
                let is_waiting = |place: ModelPlace| matches!(place.stage, PlaceStage::Waiting(_));
                self.runs(client)
                    && self.clients[client].is_attached()
                    && self.clients[client].place.is_some_and(is_waiting)
            }
            Action::Connect(client) => self.runs(client) && self.clients[client].link.is_none(),
            Action::Arrive(client) => self.has_message(client, false),
            Action::Hear(client) => self.runs(client) && self.has_message(client, true),
            Action::Cut(client) => self.clients[client].link.is_some(),
            Action::Stop(client) => self.runs(client),
            Action::GoOn(client) => self.clients[client].is_stopped,
            Action::Crash(loss) => may_fail && self.server.can_lose(loss),
            Action::Promote(loss) => may_fail && self.server.can_lack(loss),
            Action::Restart | Action::PutBack | Action::SetClockBack => may_fail,
            Action::Hold(_) => self.server.held.is_none(),
            Action::LetGo => self.server.held.is_some(),
            Action::SecondPasses => true,
            Action::NextComes => self.next_moment().is_some(),
        }
    }

    pub(super) fn happen(&mut self, action: Action) {
        match action {
            Action::Beat(client) | Action::SendBeat(client) => {
                let request = self.clients[client].beat();
                self.ask(client, request, action == Action::Beat(client));
            }
            Action::Join(client) | Action::SendJoin(client) => {
                let request = self.clients[client].join();
                self.ask(client, request, action == Action::Join(client));
            }
            Action::Look(client) | Action::SendLook(client) => {
                let request = self.clients[client].look();
                self.ask(client, request, action == Action::Look(client));
            }
            Action::Leave(client) => {
                let request = self.clients[client].leave();
                self.ask(client, request, true);
            }
            Action::Connect(client) => self.connect(client),
            Action::Arrive(client) => self.arrive(client),
            Action::Hear(client) => self.hear(client),
            Action::Cut(client) => self.cut(client),
            Action::Stop(client) => self.clients[client].is_stopped = true,
            Action::GoOn(client) => {
                self.clients[client].is_stopped = false;
                self.advance(self.now_ns);
            }
            Action::Crash(loss) => self.fail(|server| server.crash(loss)),
            Action::Restart => self.fail(ModelServer::restart),
            Action::Promote(loss) => self.fail(|server| server.promote(loss)),
            Action::PutBack => {
                self.fail(ModelServer::put_back);
                self.back_by_ns = Some(self.now_ns + u64::try_from(BRIEF.as_nanos()).expect("it is short"));
            }
            Action::SetClockBack => {
                self.failures += 1;
                self.server.set_clock_back();
            }
            Action::Hold(client) => self.server.held = Some(client),
            Action::LetGo => self.server.held = None,
            Action::SecondPasses => self.advance(self.now_ns + SECOND),
            Action::NextComes => self.advance(self.next_moment().expect("it is enabled")),
        }
    }

    fn fail(&mut self, failure: impl FnOnce(&mut ModelServer)) {
        self.failures += 1;
        failure(&mut self.server);
        self.messages.clear();
        if !self.menu.is_pooled {
            self.clients.iter_mut().for_each(ModelClient::detach);
        }
    }

    pub(super) fn cut(&mut self, client: usize) {
        self.clients[client].detach();
        self.messages.retain(|message| message.client != client || message.answer.is_none());
    }

    pub(super) fn ask(&mut self, client: usize, request: Option<Request>, is_answered_at_once: bool) {
        let (Some(request), Some(link)) = (request, &self.clients[client].link) else { return };
        let (epoch, sent_at) = (link.epoch, self.clock(client));
        self.messages.push(Message { client, epoch, request, sent_at, answer: None });
        if is_answered_at_once {
            self.flush(client);
        }
    }

    pub(super) fn connect(&mut self, client: usize) {
        for request in self.clients[client].connect() {
            self.ask(client, Some(request), false);
        }
        self.flush(client);
    }

    /// All that is on the way over a session's connection arrives, and is answered.
    pub(super) fn flush(&mut self, client: usize) {
        let epoch = |world: &Self| world.clients[client].link.as_ref().map(|link| link.epoch);
        while let Some(at) =
            self.messages.iter().position(|message| message.client == client && Some(message.epoch) == epoch(self))
        {
            if self.messages[at].answer.is_none() {
                self.execute(at);
            } else {
                self.take_in(at);
            }
        }
    }

    fn arrive(&mut self, client: usize) {
        let is_next = |message: &Message| message.client == client && message.answer.is_none();
        let at = self.messages.iter().position(is_next).expect("it is enabled");
        self.execute(at);
    }

    pub(super) fn execute(&mut self, at: usize) {
        let Message { client, epoch, request, .. } = self.messages[at].clone();
        let greeted = self.clients[client].link.as_ref().and_then(|link| link.greeted);
        let answer = if self.menu.is_pooled && !self.server.is_reached(greeted) {
            Answer::new("refused")
        } else {
            self.server.execute(client, &request, self.now_ns / MS)
        };
        if answer.word == "removed" {
            self.check_removal(&request);
        }
        if self.clients[client].link.as_ref().is_some_and(|link| link.epoch == epoch) {
            self.messages[at].answer = Some(answer);
        } else {
            self.messages.remove(at);
        }
    }

    fn hear(&mut self, client: usize) {
        let is_next = |message: &Message| message.client == client && message.answer.is_some();
        let at = self.messages.iter().position(is_next).expect("it is enabled");
        self.take_in(at);
    }

    fn take_in(&mut self, at: usize) {
        let Message { client, request, sent_at, answer, .. } = self.messages.remove(at);
        let (now, answer) = (self.clock(client), answer.expect("it was answered"));
        self.clients[client].lapse(now);
        if self.clients[client].is_over {
            return;
        }
        let held = self.clients[client].is_held();
        let next = self.clients[client].hear(&request, &answer, sent_at, now);
        if !held && self.clients[client].is_held() {
            self.granted(client);
        }
        let next = if next == Next::Doubt { self.doubt(client) } else { next };
        if let Next::Ask(request) = next {
            self.ask(client, Some(request), true);
        }
        if self.clients[client].link.is_none() {
            self.cut(client);
        }
    }

    fn doubt(&mut self, client: usize) -> Next {
        let greeted = self.server.execute(client, &Request::Greet { is_new: true }, self.now_ns / MS);
        if greeted.word == "unsettled" {
            let state = greeted.state.expect("each has a name");
            self.server.execute(client, &Request::Doubt(state.to_string()), self.now_ns / MS);
        }
        self.clients[client].remind()
    }

    fn granted(&mut self, client: usize) {
        let place = self.clients[client].place.expect("it holds");
        if client < WITNESS {
            if place.token <= self.granted {
                let (token, before) = (place.token, self.granted);
                self.wrong.get_or_insert_with(|| format!("session {client} was granted token {token} after {before}"));
            }
            self.granted = self.granted.max(place.token);
        }
    }

    /// When something is due or over next, of all that is not yet.
    fn next_moment(&self) -> Option<u64> {
        let moments = (0..self.clients.len()).flat_map(|client| {
            let this = &self.clients[client];
            let belief = (!this.is_over && this.link.is_some() || this.is_held()).then(|| this.belief.safe_until());
            belief.into_iter().chain(self.dues(client)).map(move |shown| self.moment(client, shown))
        });
        moments.filter(|moment| *moment > self.now_ns).min()
    }

    /// When a running process does something by its clock.
    fn dues(&self, client: usize) -> impl Iterator<Item = BootInstant> {
        let this = &self.clients[client];
        let link = this.link.as_ref().filter(|_| self.is_taken(client) && self.runs(client));
        let settles_at = link.and_then(|link| match &link.stage {
            LinkStage::Settling(unsettled) => Some(unsettled.settles_at),
            _ => None,
        });
        let due = link.and_then(|link| link.observation.next_due());
        settles_at.into_iter().chain(due)
    }

    /// Time passes, and each process does what it does by its clock.
    pub(super) fn advance(&mut self, until_ns: u64) {
        loop {
            let due = (0..self.clients.len())
                .flat_map(|client| self.dues(client).map(move |shown| (shown, client)))
                .map(|(shown, client)| (self.moment(client, shown), client))
                .min();
            let next_ns = due.map_or(until_ns, |(moment, _)| moment.min(until_ns));
            if self.return_in_time(next_ns) {
                continue;
            }
            self.now_ns = next_ns;
            match due {
                Some((moment, client)) if moment <= until_ns => self.work(client),
                _ => break,
            }
            self.check_holds();
        }
        for client in 0..self.clients.len() {
            let now = self.clock(client);
            if !self.clients[client].is_stopped {
                self.clients[client].lapse(now);
            }
        }
    }

    /// Whether one that is to be back in time was brought back before this moment.
    fn return_in_time(&mut self, until_ns: u64) -> bool {
        let (Some(by_ns), Some(client)) = (self.back_by_ns.filter(|by_ns| *by_ns < until_ns), self.menu.returns) else {
            return false;
        };
        self.now_ns = self.now_ns.max(by_ns);
        self.back_by_ns = None;
        if self.runs(client) && self.clients[client].link.is_none() {
            self.connect(client);
        }
        true
    }

    /// Does what a process does by its clock now.
    fn work(&mut self, client: usize) {
        let now = self.clock(client);
        self.clients[client].lapse(now);
        let is_over = self.clients[client].is_over;
        let Some(link) = self.clients[client].link.as_mut().filter(|_| !is_over) else { return };
        let settle = match &link.stage {
            LinkStage::Settling(unsettled) if unsettled.is_over(now) => Some(Request::Settle(unsettled.state.clone())),
            _ => None,
        };
        let request = settle.or_else(|| link.observation.take_due(now).map(Request::Reap));
        self.ask(client, request, true);
    }

    pub(super) fn check_holds(&mut self) {
        let contend = self.clients.iter().filter(|client| client.number < WITNESS);
        let holders: Vec<_> =
            contend.filter(|client| client.believes(self.clock(client.number))).map(|client| client.number).collect();
        if holders.len() > 1 {
            self.wrong.get_or_insert_with(|| format!("sessions {holders:?} hold the lock at {} ms", self.now_ns / MS));
        }
    }

    fn check_removal(&mut self, request: &Request) {
        let Request::Reap(dead) = request else { return };
        let dead = self.clients.iter().find(|client| number_of(client.number) == dead.session).expect("it is known");
        if !dead.is_over && self.clock(dead.number) < dead.belief.safe_until() {
            let wrong =
                format!("session {} was removed while it believed itself, at {} ms", dead.number, self.now_ns / MS);
            self.wrong.get_or_insert(wrong);
        }
    }

    pub(super) fn check(&mut self) -> Result<(), String> {
        self.check_holds();
        self.wrong.clone().map_or(Ok(()), Err)
    }
}

impl ServiceModel for World {
    type Action = Action;

    fn enabled(&self) -> Vec<Action> {
        self.menu.offers.iter().copied().filter(|action| self.can(*action)).collect()
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        self.happen(action);
        self.check()
    }

    fn end(&self) -> Result<(), String> {
        self.menu.endings.iter().try_for_each(|&ending| self.clone().play_to_end(ending))
    }
}
