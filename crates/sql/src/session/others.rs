//! Observes the other sessions over one connection, and removes those that are due: a rule of events and times, and the
//! task that follows it.
//!
//! A session whose beat stands still for its whole timeout and the margin is dead, or does not believe itself any
//! more. The time counts on the observer's own clock, from the moment when it received the first answer that showed
//! the beat: no server's clock has a part in it. Over a new connection all is observed anew, since another server may
//! answer there, which has lost beats that were acknowledged.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Bug, or_never};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::look::SqlLink;
use crate::session::Core;
use crate::statement::{AnswerRow, Argument, RowKind, SessionNumber, Statement, word};
use crate::timing::{SessionBeat, Timing};

/// How many sessions each one observes that it waits for in no queue: the next ones by their numbers. All of them would
/// have to die with a session before it is left.
const RING: usize = 16;

/// How many of them if they all stand still: many have died at once, and are to go in one timeout, not one after the
/// other.
const RING_WIDE: usize = 1_000;

/// For what part of its timeout a session stands still before it is taken for one of many that have died.
const STILL_DIVISOR: u32 = 2;

/// The pause before a session is to be removed again that could not be, since other transactions hold its rows.
const PAUSE: Duration = Duration::from_millis(250);

/// How many sessions are remembered: those of a wide ring, and those that were waited for lately.
const SEEN_MAX: usize = 4 * RING_WIDE;

/// One session, as it was seen last.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct ObservedSession {
    shown: SessionBeat,
    /// When the first answer was received that showed this beat.
    since: BootInstant,
    /// When the last one was.
    last: BootInstant,
    /// When it is to be removed.
    due: BootInstant,
    /// Whether its beat was another one before, over this connection.
    has_beaten: bool,
}

/// What one session sees of others over one connection.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Observation {
    own: SessionNumber,
    seen: BTreeMap<SessionNumber, ObservedSession>,
}

impl Observation {
    pub(super) const fn new(own: SessionNumber) -> Self {
        Self { own, seen: BTreeMap::new() }
    }

    /// Notes what an answer showed that was received at this moment.
    pub(super) fn shown(&mut self, shown: impl IntoIterator<Item = SessionBeat>, at: BootInstant) {
        for shown in shown {
            if shown.session == self.own {
                continue;
            }
            let has_room = self.seen.len() < SEEN_MAX;
            match self.seen.get_mut(&shown.session) {
                Some(seen) if seen.shown == shown => seen.last = at,
                None if !has_room => {}
                seen => {
                    let (has_beaten, due) = (seen.is_some(), at.saturating_add(shown.timing.doubt()));
                    self.seen.insert(shown.session, ObservedSession { shown, since: at, last: at, due, has_beaten });
                }
            }
        }
        // One that is not shown any more is gone, or is waited for no more.
        self.seen.retain(|_, seen| at < seen.last.saturating_add(seen.shown.timing.doubt() * 2));
    }

    /// Whether a session seems to live. It is for those that are not to wait for nothing; only silence proves.
    fn seems_alive(&self, session: SessionNumber, now_unix: Duration) -> bool {
        self.seen.get(&session).is_none_or(|seen| seen.has_beaten || seen.shown.is_recent(now_unix))
    }

    /// How many sessions of the ring the next beat asks for.
    pub(super) fn ring(&self, now: BootInstant) -> usize {
        let mut ring: Vec<_> = self.seen.values().collect();
        ring.sort_unstable_by_key(|seen| seen.shown.session.0.wrapping_sub(self.own.0));
        ring.truncate(RING);
        let stands_still = |seen: &&ObservedSession| {
            now.saturating_duration_since(seen.since) >= seen.shown.timing.timeout / STILL_DIVISOR
        };
        if ring.len() == RING && ring.iter().all(stands_still) { RING_WIDE } else { RING }
    }

    /// When the next session is to be removed.
    pub(super) fn next_due(&self) -> Option<BootInstant> {
        self.seen.values().map(|seen| seen.due).min()
    }

    /// Takes a session that is to be removed. It is not taken again before a pause.
    pub(super) fn take_due(&mut self, now: BootInstant) -> Option<SessionBeat> {
        let seen = self.seen.values_mut().filter(|seen| seen.due <= now).min_by_key(|seen| seen.due)?;
        seen.due = now.saturating_add(PAUSE);
        Some(seen.shown)
    }

    /// Notes that a session was removed, or was not as it was seen.
    pub(super) fn forget(&mut self, session: SessionNumber) {
        self.seen.remove(&session);
    }
}

/// What is seen of the others over one connection.
pub(super) struct Others {
    doubts_early: bool,
    seen: Mutex<SeenOthers>,
    changed: Notify,
}

struct SeenOthers {
    observation: Observation,
    /// The contenders that we wait for, by their session, as the last answer showed them.
    awaited: HashMap<SessionNumber, Vec<Ticket>>,
}

impl Others {
    /// Begins with a connection: what was seen over another one counts no more.
    pub(super) fn new(core: &Core) -> Self {
        let seen = SeenOthers { observation: Observation::new(core.id), awaited: HashMap::new() };
        let doubts_early = core.life.testing.has(Bug::DoubtsEarly);
        Self { doubts_early, seen: Mutex::new(seen), changed: Notify::new() }
    }

    /// Takes in the answer to a beat, received at this moment. Returns the contenders that we wait for and that seem to
    /// live.
    pub(super) fn shown(&self, rows: &[AnswerRow], at: BootInstant, now_unix: Duration) -> Vec<Ticket> {
        let mut seen = self.seen.lock();
        let shown = rows.iter().filter_map(SessionBeat::read);
        seen.observation.shown(shown.map(|shown| if self.doubts_early { early(shown) } else { shown }), at);
        seen.awaited.clear();
        let mut living = Vec::new();
        for row in rows.iter().filter(|row| row.says(RowKind::Owner)) {
            let Some(ticket) = row.ticket.map(Ticket::from_bits) else { continue };
            let session = row.session.map(SessionNumber);
            // One without a session outlives it.
            if session.is_none_or(|session| seen.observation.seems_alive(session, now_unix)) {
                living.push(ticket);
            }
            if let Some(session) = session {
                seen.awaited.entry(session).or_default().push(ticket);
            }
        }
        drop(seen);
        self.changed.notify_one();
        living
    }

    /// How many sessions of the ring the next beat asks for.
    pub(super) fn ring(&self, now: BootInstant) -> i64 {
        i64::try_from(self.seen.lock().observation.ring(now)).unwrap_or(i64::MAX)
    }

    /// Removes each session when it is due.
    pub(super) async fn run(&self, core: &Core, link: &Arc<SqlLink>) -> Infallible {
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

    async fn reap(&self, core: &Core, link: &Arc<SqlLink>, dead: SessionBeat) {
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
            Ok(_) | Err(_) => {
                let staying = self.seen.lock().awaited.get(&dead.session).cloned().unwrap_or_default();
                core.waits.on_table(|table, _| table.stay(&staying));
            }
        }
    }

    /// Forgets a session; returns which of its contenders we wait for.
    fn forget(&self, session: SessionNumber) -> Vec<Ticket> {
        let mut seen = self.seen.lock();
        seen.observation.forget(session);
        seen.awaited.remove(&session).unwrap_or_default()
    }
}

/// A session as one sees it that removes it after half of its timeout.
fn early(shown: SessionBeat) -> SessionBeat {
    SessionBeat { timing: Timing { timeout: shown.timing.timeout / 2 }, ..shown }
}

#[cfg(test)]
mod tests;
