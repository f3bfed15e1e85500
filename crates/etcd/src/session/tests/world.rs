//! One lease, its leaders and its client, and all that can happen to them.

use lockkeeper_conformance::schedules::ServiceModel;
use lockkeeper_core::clock::BootInstant;

use super::client::{Client, ClientBug, Keepalive, Stage};
use super::leaders::{Leaders, ServerBug};

/// How much time passes at once. The lease may run out between two steps: what is believed is compared with the moment
/// at which it does.
const STEP_MS: u64 = 2_000;

/// How many requests are under way at once that go through the quorum: one before and one behind a renewal.
const ASKED_MAX: usize = 2;

/// The size of the schedules, and what is wrong in them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Menu {
    pub(super) depth: usize,
    pub(super) connections: usize,
    /// How many members they lead to.
    pub(super) members: usize,
    pub(super) elections_max: usize,
    /// How fast the client's clock goes, in hundredths of the service's.
    pub(super) rate: u64,
    pub(super) client_bug: Option<ClientBug>,
    pub(super) server_bug: Option<ServerBug>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct World {
    menu: Menu,
    now_ms: u64,
    leaders: Leaders,
    client: Client,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Action {
    Pass,
    Crash,
    Elect,
    Promote,
    SendKeepalive {
        connection: usize,
    },
    /// A member notes the term that it knows, and has this leader renew, of that term or a later one.
    Renew {
        connection: usize,
        head: usize,
        leader: usize,
    },
    HearKeepalive {
        connection: usize,
    },
    Ask {
        connection: usize,
    },
    /// A read is answered in this term.
    Confirm {
        which: usize,
        term: usize,
    },
    /// A leader takes a write into its log.
    Append {
        which: usize,
        leader: usize,
    },
    Commit {
        which: usize,
        appended: usize,
    },
    /// The answer comes, with the term that the member knew then.
    Learn {
        which: usize,
        head: usize,
    },
}

impl World {
    pub(super) fn new(menu: Menu) -> Self {
        let leaders = Leaders::new(menu.server_bug);
        let client = Client::new(at(0, menu.rate), (menu.connections, menu.members), menu.client_bug);
        Self { menu, now_ms: 0, leaders, client }
    }

    fn now(&self) -> BootInstant {
        at(self.now_ms, self.menu.rate)
    }

    fn with_leaders(&self, actions: &mut Vec<Action>) {
        let leaders = &self.leaders;
        if leaders.may_promote() {
            actions.push(Action::Promote);
        }
        if leaders.term() < self.menu.elections_max {
            actions.push(Action::Elect);
            // The end of the last one would only end the schedule.
            actions.extend(leaders.are_led().then_some(Action::Crash));
        }
    }

    fn with_keepalives(&self, actions: &mut Vec<Action>) {
        for (connection, keepalive) in self.client.keepalives.iter().enumerate() {
            match keepalive {
                Some(Keepalive::Sent { .. }) => {
                    for leader in self.leaders.primaries() {
                        actions.extend((0..=leader).map(|head| Action::Renew { connection, head, leader }));
                    }
                }
                Some(Keepalive::Answered { .. }) => actions.push(Action::HearKeepalive { connection }),
                None => {}
            }
            actions.push(Action::SendKeepalive { connection });
        }
    }

    fn with_asked(&self, actions: &mut Vec<Action>) {
        for (which, asked) in self.client.asked.iter().enumerate() {
            match asked.stage {
                Stage::Sent if self.client.asks_members_alone() => {
                    actions.extend((0..=self.leaders.term()).map(|term| Action::Confirm { which, term }));
                }
                Stage::Sent => {
                    actions.extend(self.leaders.confirming().into_iter().map(|term| Action::Confirm { which, term }));
                    actions.extend(self.leaders.running().map(|leader| Action::Append { which, leader }));
                }
                Stage::Appended(appended) if self.leaders.may_commit(appended) => {
                    actions.push(Action::Commit { which, appended });
                }
                Stage::Appended(_) => {}
                Stage::Executed(term) => {
                    actions.extend((term..=self.leaders.term()).map(|head| Action::Learn { which, head }));
                }
            }
        }
        if self.client.asked.len() < ASKED_MAX {
            actions.extend((0..self.menu.members).map(|connection| Action::Ask { connection }));
        }
    }

    fn renew(&mut self, connection: usize, head: usize, leader: usize) {
        if let Some(Keepalive::Sent { at: sent_at }) = self.client.keepalives[connection] {
            let lives = self.leaders.renew(leader, self.now_ms);
            self.client.keepalives[connection] = Some(Keepalive::Answered { sent_at, head, lives });
        }
    }

    /// What is believed ends before the lease would if nothing came but time.
    fn check(&self) -> Result<(), String> {
        let end_ms = self.leaders.end_ms(self.now_ms);
        let until = self.client.believed_until(at(0, self.menu.rate));
        if until <= at(end_ms, self.menu.rate) {
            return Ok(());
        }
        Err(format!("the lease is believed until {until:?} of the client's clock, and revoked at {end_ms} ms"))
    }
}

/// A moment of the service's clock by that of the client.
fn at(server_ms: u64, rate: u64) -> BootInstant {
    BootInstant::from_nanos(server_ms * rate * 10_000)
}

impl ServiceModel for World {
    type Action = Action;

    fn enabled(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        self.with_asked(&mut actions);
        self.with_keepalives(&mut actions);
        self.with_leaders(&mut actions);
        actions.push(Action::Pass);
        actions
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        let now = self.now();
        match action {
            Action::Pass => {
                self.now_ms += STEP_MS;
                self.leaders.pass(self.now_ms);
            }
            Action::Crash => self.leaders.crash(),
            Action::Elect => self.leaders.elect(),
            Action::Promote => self.leaders.promote(self.now_ms),
            Action::SendKeepalive { connection } => self.client.send_keepalive(connection, now),
            Action::Renew { connection, head, leader } => self.renew(connection, head, leader),
            Action::HearKeepalive { connection } => self.client.hear(connection, now),
            Action::Ask { connection } => self.client.ask(connection),
            Action::Confirm { which, term } => self.client.advance(which, Stage::Executed(term)),
            Action::Append { which, leader } => self.client.advance(which, Stage::Appended(leader)),
            Action::Commit { which, appended } => self.client.advance(which, Stage::Executed(appended)),
            Action::Learn { which, head } => self.client.learn(which, head, now),
        }
        self.check()
    }

    /// Belief is of use: a renewal and a read that a leader answers at once are believed, unless the lease is gone.
    fn end(&self) -> Result<(), String> {
        let mut healed = self.clone();
        if !healed.leaders.are_led() {
            healed.leaders.elect();
        }
        if healed.leaders.may_promote() {
            healed.leaders.promote(self.now_ms);
        }
        healed.client.asked.clear();
        let term = healed.leaders.term();
        let actions = [
            Action::SendKeepalive { connection: 0 },
            Action::Renew { connection: 0, head: term, leader: term },
            Action::HearKeepalive { connection: 0 },
            Action::Ask { connection: 0 },
            Action::Confirm { which: 0, term },
            Action::Learn { which: 0, head: term },
        ];
        actions.into_iter().try_for_each(|action| healed.act(action))?;
        let worth = healed.now().saturating_add(Client::belief_span());
        if self.leaders.is_revoked() || healed.client.believed_until(at(0, self.menu.rate)) >= worth {
            return Ok(());
        }
        Err("a lease that a leader has renewed at once is not believed".to_owned())
    }
}
