//! Two clients, one lock, the server with its copy, and all that can happen to them.

use lockkeeper_conformance::schedules::ServiceModel;
use lockkeeper_core::clock::BootInstant;

use super::client::{Client, ClientBug, Copied, Pending, Stage};
use super::service::{Call, Data, ServerBug, ServerTime};

/// How much time passes at once: as much as the service's clock goes on at once, or more.
const STEP_MS: u64 = 2_000;

/// How far a clock jumps: further than any session lasts.
const JUMP_MS: u64 = 20_000;

/// How many steps it takes at most until a dead session is removed: in each the clock goes on by the least guard.
const STEPS_MAX: usize = 20;

/// A clock begins so late that it can be set back.
const BEGIN_MS: u64 = 100_000;

/// What can fail, and how the service's data suffers from it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Fault {
    /// The server's clock is set forward.
    JumpAhead,
    JumpBack,
    /// The copy takes over: a replica is promoted, or a server restarts with what its disk has.
    FallBack,
    /// A replica is promoted, and the former primary goes on for those that are connected to it.
    Promote,
    /// A restart without data.
    LoseAll,
    /// The key with the clock is lost alone.
    LoseClock,
}

/// What excuses that two hold the lock, until the session of the first one has run out.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Excuse {
    Nothing,
    /// The place of a holder was lost.
    LostPlace,
    /// Something was lost that the service had acknowledged.
    AnyLoss,
}

/// The size of the schedules, and what is wrong in them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Menu {
    pub(super) depth: usize,
    pub(super) timeouts_s: [u64; 2],
    /// How fast the clients' clocks go, in hundredths of the server's.
    pub(super) rate: u64,
    pub(super) faults: &'static [Fault],
    pub(super) faults_max: usize,
    /// Whether a call counts only once the replica has it: `replicas=1`, and there is one.
    pub(super) waits_for_copies: bool,
    pub(super) excuse: Excuse,
    pub(super) client_bug: Option<ClientBug>,
    pub(super) server_bug: Option<ServerBug>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct World {
    menu: Menu,
    now_ms: u64,
    /// The server's clock at time 0.
    server_began_ms: u64,
    jumped_ms: Option<u64>,
    was_set_back: bool,
    faults: usize,
    primary: Data,
    /// What the replica or the disk has.
    copy: Data,
    /// A former primary that goes on.
    former: Option<Data>,
    is_at_former: [bool; 2],
    /// When something was last lost of a client.
    lost_ms: [Option<u64>; 2],
    greatest_token: u64,
    clients: [Client; 2],
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Action {
    Pass,
    Send {
        who: usize,
        call: Call,
    },
    Execute {
        who: usize,
    },
    Hear {
        who: usize,
    },
    /// The copy catches up.
    Copy,
    /// A client finds the new primary.
    Move {
        who: usize,
    },
    Fail(Fault),
}

impl World {
    /// Begins with a client that holds the lock and another that has a session; the copy lacks the first one's place,
    /// unless it was waited for.
    pub(super) fn new(menu: Menu) -> Self {
        let data = Data::new(menu.timeouts_s, menu.server_bug);
        let client = |who: usize| Client::new(menu.timeouts_s[who], menu.waits_for_copies, menu.client_bug);
        let mut world = Self {
            menu,
            now_ms: 0,
            server_began_ms: BEGIN_MS,
            jumped_ms: None,
            was_set_back: false,
            faults: 0,
            copy: data.clone(),
            primary: data,
            former: None,
            is_at_former: [false; 2],
            lost_ms: [None; 2],
            greatest_token: 0,
            clients: [client(0), client(1)],
        };
        _ = world.call(0, Call::Open, Copied::Yes);
        _ = world.call(1, Call::Open, Copied::Yes);
        _ = world.call(0, Call::Join, if menu.waits_for_copies { Copied::Yes } else { Copied::NotYet });
        world
    }

    /// Makes a call that is answered at once.
    fn call(&mut self, who: usize, call: Call, copied: Copied) -> Result<(), String> {
        self.clients[who].send(call, self.now());
        self.execute(who);
        if copied == Copied::Yes {
            self.copy();
        }
        self.hear(who)
    }

    fn now(&self) -> BootInstant {
        self.client_time(self.now_ms)
    }

    /// A moment of the server's clock by that of the clients.
    fn client_time(&self, ms: u64) -> BootInstant {
        BootInstant::from_nanos(ms * self.menu.rate * 10_000)
    }

    fn server_time(&self) -> ServerTime {
        let ms = self.server_began_ms + self.now_ms;
        // What is lost takes more than a moment.
        ServerTime { ms, us: ms * 1_000 + 100 * self.faults as u64 }
    }

    fn with_client(&self, who: usize, actions: &mut Vec<Action>) {
        let client = &self.clients[who];
        actions.extend(client.pending.map(|pending| match pending.stage {
            Stage::Sent => Action::Execute { who },
            Stage::Executed(..) => Action::Hear { who },
        }));
        actions.extend(client.calls().iter().map(|&call| Action::Send { who, call }));
        actions.extend(self.is_at_former[who].then_some(Action::Move { who }));
    }

    fn with_faults(&self, actions: &mut Vec<Action>) {
        let faults = self.menu.faults.iter().copied();
        let can_be = |fault: &Fault| *fault != Fault::JumpAhead || self.jumped_ms.is_none();
        actions.extend(faults.clone().filter(can_be).map(Action::Fail));
        let uses_copy = faults.into_iter().any(|fault| matches!(fault, Fault::FallBack | Fault::Promote));
        actions.extend((uses_copy && self.copy != self.primary).then_some(Action::Copy));
    }

    fn execute(&mut self, who: usize) {
        let (now, number) = (self.server_time(), self.clients[who].number);
        let server = match &mut self.former {
            Some(former) if self.is_at_former[who] => former,
            _ => &mut self.primary,
        };
        if let Some(pending @ Pending { call, stage: Stage::Sent, .. }) = self.clients[who].pending {
            let answer = server.execute((who, number), call, now);
            let has_copy = self.copy == self.primary && !self.is_at_former[who];
            let stage = Stage::Executed(answer, if has_copy { Copied::Yes } else { Copied::NotYet });
            self.clients[who].pending = Some(Pending { stage, ..pending });
        }
    }

    fn copy(&mut self) {
        self.copy = self.primary.clone();
        for who in 0..2 {
            if let Some(Pending { stage: Stage::Executed(_, copied), .. }) = &mut self.clients[who].pending
                && !self.is_at_former[who]
            {
                *copied = Copied::Yes;
            }
        }
    }

    fn fail(&mut self, fault: Fault) {
        self.faults += 1;
        let before = self.primary.clone();
        match fault {
            Fault::JumpAhead => self.server_began_ms += JUMP_MS,
            Fault::JumpBack => self.server_began_ms -= JUMP_MS,
            Fault::FallBack => self.primary = self.copy.clone(),
            Fault::Promote => {
                self.former = Some(std::mem::replace(&mut self.primary, self.copy.clone()));
                self.is_at_former = [true; 2];
            }
            Fault::LoseAll => self.primary.lose_all(),
            Fault::LoseClock => self.primary.lose_clock(),
        }
        match fault {
            Fault::JumpAhead => self.jumped_ms = Some(self.now_ms),
            Fault::JumpBack => self.was_set_back = true,
            // What was under way is lost with the connections.
            Fault::FallBack | Fault::LoseAll => self.clients.iter_mut().for_each(|client| client.pending = None),
            Fault::Promote | Fault::LoseClock => {}
        }
        self.note_losses(&before, fault);
    }

    fn note_losses(&mut self, before: &Data, fault: Fault) {
        for who in 0..2 {
            let session = (who, self.clients[who].number);
            let is_lost = match self.menu.excuse {
                Excuse::Nothing => false,
                Excuse::LostPlace => before.has_place(session) && !self.primary.has_place(session),
                Excuse::AnyLoss => fault != Fault::LoseClock && *before != self.primary,
            };
            if is_lost {
                self.lost_ms[who] = Some(self.now_ms);
            }
        }
    }

    fn may_jump(&self) -> bool {
        let may_fail = self.faults < self.menu.faults_max && self.menu.faults.contains(&Fault::JumpAhead);
        may_fail && self.jumped_ms.is_none()
    }

    /// The moment, by the clients' clock, until which a loss excuses what a client believes.
    fn excused_until(&self, who: usize) -> Option<BootInstant> {
        Some(self.client_time(self.lost_ms[who]? + 1_000 * self.menu.timeouts_s[who]))
    }

    /// A session that is believed stands, and goes on to do so while it is believed, if nothing comes but time, calls
    /// and a jump of the server's clock.
    fn check_session(&self, who: usize) -> Result<(), String> {
        let Some(until) = self.clients[who].believed_until(self.now()) else { return Ok(()) };
        if self.menu.excuse == Excuse::LostPlace && !self.clients[who].holds(self.now()) {
            return Ok(());
        }
        let session = (who, self.clients[who].number);
        let lasts_ms = self.primary.lasts_ms(session, self.server_time().ms, self.may_jump());
        let end = self.client_time(self.now_ms + lasts_ms);
        if until <= end || self.excused_until(who).is_some_and(|excused| until <= excused) {
            return Ok(());
        }
        Err(format!("client {who} believes until {until:?}, and its session may end at {end:?}"))
    }

    fn check(&self) -> Result<(), String> {
        (0..2).try_for_each(|who| self.check_session(who))?;
        let now = self.now();
        if !(self.clients[0].holds(now) && self.clients[1].holds(now)) {
            return Ok(());
        }
        let is_excused = |who: usize| {
            let until = self.clients[who].believed_until(now)?;
            Some(until <= self.excused_until(who)?)
        };
        if (0..2).any(|who| is_excused(who) == Some(true)) { Ok(()) } else { Err("two hold the lock".to_owned()) }
    }

    fn hear(&mut self, who: usize) -> Result<(), String> {
        let Some(token) = self.clients[who].hear(self.now()) else { return Ok(()) };
        if token <= self.greatest_token && !self.was_set_back {
            return Err(format!("token {token} is granted after {}", self.greatest_token));
        }
        self.greatest_token = self.greatest_token.max(token);
        Ok(())
    }
}

impl ServiceModel for World {
    type Action = Action;

    fn enabled(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        (0..2).for_each(|who| self.with_client(who, &mut actions));
        if self.faults < self.menu.faults_max {
            self.with_faults(&mut actions);
        }
        actions.push(Action::Pass);
        actions
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        let now = self.now();
        match action {
            Action::Pass => self.now_ms += STEP_MS,
            Action::Send { who, call } => self.clients[who].send(call, now),
            Action::Execute { who } => self.execute(who),
            Action::Hear { who } => self.hear(who)?,
            Action::Copy => self.copy(),
            Action::Move { who } => {
                self.is_at_former[who] = false;
                self.clients[who].pending = None;
            }
            Action::Fail(fault) => self.fail(fault),
        }
        self.check()
    }

    /// A client that goes on is granted the lock once the other one has gone silent, and is dead.
    fn end(&self) -> Result<(), String> {
        let (mut healed, who) = (self.clone(), 1);
        healed.is_at_former[who] = false;
        for _ in 0..STEPS_MAX {
            // First a session, then a place, then a look.
            for _ in 0..3 {
                let last = healed.clients[who].calls().last().copied().expect("there is always one");
                healed.call(who, last, Copied::Yes)?;
            }
            healed.call(who, Call::Renew, Copied::Yes)?;
            if healed.clients[who].holds(healed.now()) {
                return healed.check();
            }
            healed.now_ms += STEP_MS;
        }
        Err("a client that goes on is never granted the lock of a dead one".to_owned())
    }
}
