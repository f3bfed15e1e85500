//! Observes the other sessions over one connection, and removes those that are due.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Bug, Mutex, or_never};
use tokio::sync::Notify;

use crate::session::Link;
use crate::session::belief::Timing;
use crate::session::core::Core;
use crate::session::observation::{Doubt, Observation, Shown};
use crate::statement::{Argument, Row, SessionId, Statement, What, word};

/// What is seen of the others over one connection.
pub(super) struct Others {
    seen: Mutex<Seen>,
    changed: Notify,
}

struct Seen {
    observation: Observation,
    /// The contenders that we wait for, by their session, as the last answer showed them.
    awaited: HashMap<SessionId, Vec<Ticket>>,
}

impl Others {
    /// Begins with a connection: what was seen over another one counts no more.
    pub(super) fn new(core: &Core) -> Self {
        let seen = Seen { observation: Observation::new(core.id, doubt(core)), awaited: HashMap::new() };
        Self { seen: Mutex::new(seen), changed: Notify::new() }
    }

    /// Takes in the answer to a beat, received at this moment.
    pub(super) fn shown(&self, rows: &[Row], at: BootInstant) {
        let mut seen = self.seen.lock();
        seen.observation.shown(rows.iter().filter_map(Shown::read), at);
        seen.awaited.clear();
        for row in rows.iter().filter(|row| row.says(What::Owner)) {
            if let (Some(ticket), Some(session)) = (row.ticket, row.session) {
                seen.awaited.entry(SessionId(session)).or_default().push(Ticket::from_bits(ticket));
            }
        }
        drop(seen);
        self.changed.notify_one();
    }

    /// How many sessions of the ring the next beat asks for.
    pub(super) fn ring(&self, now: BootInstant) -> i64 {
        i64::try_from(self.seen.lock().observation.ring(now)).unwrap_or(i64::MAX)
    }

    /// Removes each session when it is due.
    pub(super) async fn run(&self, core: &Core, link: &Arc<Link>) -> Infallible {
        loop {
            let due = self.seen.lock().observation.next_due();
            let turn = or_never(due.map(|due| core.life.clock.sleep_until(due)));
            tokio::select! {
                biased;
                () = turn => {}
                () = self.changed.notified() => continue,
            }
            let due = self.seen.lock().observation.take_due(core.life.clock.now());
            if let Some(dead) = due {
                self.reap(core, link, dead).await;
            }
        }
    }

    async fn reap(&self, core: &Core, link: &Arc<Link>, dead: Shown) {
        let arguments = vec![dead.session.into(), Argument::Int(dead.epoch), Argument::Int(dead.beat)];
        // It is removed only if it is still as it was seen.
        let answer = core.ask(link, Statement::new("reap", arguments)).await;
        let word = answer.as_ref().map_err(Clone::clone).and_then(|rows| word(rows));
        tracing::debug!(target: "lockkeeper", session = %dead.session, ?word, "a session stood still for its timeout");
        match word {
            Ok("removed") => {
                // All of its contenders went with it.
                for departed in self.forget(dead.session) {
                    core.waits.departed(departed);
                }
            }
            Ok("alive") => drop(self.forget(dead.session)),
            // Other transactions hold its rows, or the server could not be asked: again after a pause.
            Ok(_) | Err(_) => {}
        }
    }

    /// Forgets a session; returns which of its contenders we wait for.
    fn forget(&self, session: SessionId) -> Vec<Ticket> {
        let mut seen = self.seen.lock();
        seen.observation.forget(session);
        seen.awaited.remove(&session).unwrap_or_default()
    }
}

/// How long a beat must stand still.
fn doubt(core: &Core) -> Doubt {
    if core.life.testing.has(Bug::DoubtsEarly) { |timing| timing.timeout / 2 } else { Timing::doubt }
}
