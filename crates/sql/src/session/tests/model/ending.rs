//! The ends of schedules: what was late or stopped goes on, and all have their turns in time.

use super::actions::{Action, Ending};
use super::answer::Request;
use super::client::{LinkStage, ModelClient, ModelLink, ModelPlace, PlaceStage};
use super::world::{MS, SECOND, World};

/// How many seconds a schedule may take to its end: two waits for a state, and two turns.
const END_SECONDS_MAX: u64 = 60;

impl World {
    pub(super) fn play_to_end(mut self, ending: Ending) -> Result<(), String> {
        self.server.held = None;
        let was_settled = self.server.is_settled();
        let silent = (ending == Ending::FirstFallsSilent).then_some(0);
        if let Some(silent) = silent {
            self.cut(silent);
            self.messages.retain(|message| message.client != silent);
        }
        let going: Vec<usize> = (0..self.clients.len()).filter(|client| Some(*client) != silent).collect();
        for &client in &going {
            let now = self.clock(client);
            self.clients[client].is_stopped = false;
            self.clients[client].lapse(now);
            self.flush(client);
        }
        let begun_ns = self.now_ns;
        for second in 0..END_SECONDS_MAX {
            for &client in &going {
                self.go_on(client);
                self.check()?;
            }
            if second == 0 {
                self.deliver_strays();
                self.check()?;
            }
            if self.is_done(&going) {
                return self.check_delay(begun_ns, was_settled, silent);
            }
            self.advance(self.now_ns + SECOND);
            self.check()?;
        }
        Err(format!("not all had their turns after {END_SECONDS_MAX} s"))
    }

    /// What was sent over connections of before arrives.
    fn deliver_strays(&mut self) {
        while !self.messages.is_empty() {
            self.execute(0);
        }
    }

    /// Does what a process does once a second.
    fn go_on(&mut self, client: usize) {
        if !self.runs(client) {
            return;
        }
        if self.clients[client].link.is_none() {
            self.connect(client);
        }
        for action in [Action::Beat(client), Action::Look(client)] {
            if self.can(action) {
                self.happen(action);
            }
        }
        let is_joining = |place: ModelPlace| place.stage == PlaceStage::Joining;
        if self.clients[client].wants && self.clients[client].place.is_none_or(is_joining) {
            self.happen(Action::Join(client));
        }
        self.ask_for_state(client);
        if self.clients[client].is_held() {
            self.check_holds();
            self.happen(Action::Leave(client));
        }
    }

    /// Another client may have settled the state of the data.
    fn ask_for_state(&mut self, client: usize) {
        let is_settling = |link: &ModelLink| matches!(link.stage, LinkStage::Settling(_));
        if self.clients[client].link.as_ref().is_some_and(is_settling) {
            self.ask(client, Some(Request::Greet { is_new: false }), true);
        }
    }

    fn is_done(&self, going: &[usize]) -> bool {
        let is_done = |client: &ModelClient| client.is_over || !client.wants && client.place.is_none();
        let clears = going.iter().any(|client| !self.clients[*client].is_over);
        going.iter().all(|client| is_done(&self.clients[*client])) && (!clears || self.server.is_queue_empty())
    }

    /// A holder that dies is followed in the time that is promised, if another client is there.
    fn check_delay(&self, begun_ns: u64, was_settled: bool, silent: Option<usize>) -> Result<(), String> {
        let Some(silent) = silent.filter(|_| was_settled && self.failures == 0) else { return Ok(()) };
        let timeout_ns = self.menu.timeouts_ms[silent] * MS;
        let (took_ns, limit_ns) = (self.now_ns - begun_ns, timeout_ns + timeout_ns / 4 + SECOND);
        let why = || format!("the dead one was followed after {} ms", took_ns / MS);
        if took_ns <= limit_ns { Ok(()) } else { Err(why()) }
    }
}
