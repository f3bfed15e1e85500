//! A session's observation of others, and when it removes one: a rule of events and times, without a clock or a
//! connection.
//!
//! A session whose beat stands still for its whole timeout and the margin is dead, or does not believe itself any
//! more. The time counts on the observer's own clock, from the moment when it received the first answer that showed
//! the beat: no server's clock has a part in it. Over a new connection all is observed anew, since another server may
//! answer there, which has lost beats that were acknowledged.

use std::collections::HashMap;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;

use crate::session::belief::Timing;
use crate::statement::{Row, SessionId, What};

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

/// A session as an answer shows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Shown {
    pub(crate) session: SessionId,
    pub(crate) epoch: i64,
    pub(crate) beat: i64,
    pub(crate) timing: Timing,
}

/// One session, as it was seen last.
struct Seen {
    shown: Shown,
    /// When the first answer was received that showed this beat.
    since: BootInstant,
    /// When the last one was.
    last: BootInstant,
    /// When it is to be removed.
    due: BootInstant,
}

/// How long a beat must stand still.
pub(super) type Doubt = fn(Timing) -> Duration;

/// What one session sees of others over one connection.
pub(super) struct Observation {
    own: SessionId,
    doubt: Doubt,
    seen: HashMap<SessionId, Seen>,
}

impl Shown {
    /// Reads a row; `None` if it shows no session, or none that makes sense.
    pub(crate) fn read(row: &Row) -> Option<Self> {
        let timeout_ms = u64::try_from(row.timeout_ms?).ok().filter(|_| row.says(What::Beat))?;
        let timing = Timing { timeout: Duration::from_millis(timeout_ms) };
        Some(Self { session: SessionId(row.session?), epoch: row.epoch?, beat: row.number?, timing })
    }
}

impl Observation {
    pub(super) fn new(own: SessionId, doubt: Doubt) -> Self {
        Self { own, doubt, seen: HashMap::new() }
    }

    /// Notes what an answer showed that was received at this moment.
    pub(super) fn shown(&mut self, shown: impl IntoIterator<Item = Shown>, at: BootInstant) {
        for shown in shown {
            if shown.session == self.own {
                continue;
            }
            let has_room = self.seen.len() < SEEN_MAX;
            match self.seen.get_mut(&shown.session) {
                Some(seen) if seen.shown == shown => seen.last = at,
                None if !has_room => {}
                _ => {
                    let due = at.saturating_add((self.doubt)(shown.timing));
                    self.seen.insert(shown.session, Seen { shown, since: at, last: at, due });
                }
            }
        }
        // One that is not shown any more is gone, or is waited for no more.
        self.seen.retain(|_, seen| at < seen.last.saturating_add(seen.shown.timing.doubt() * 2));
    }

    /// How many sessions of the ring the next beat asks for.
    pub(super) fn ring(&self, now: BootInstant) -> usize {
        let mut ring: Vec<_> = self.seen.values().collect();
        ring.sort_unstable_by_key(|seen| seen.shown.session.0.wrapping_sub(self.own.0));
        ring.truncate(RING);
        let stands_still =
            |seen: &&Seen| now.saturating_duration_since(seen.since) >= seen.shown.timing.timeout / STILL_DIVISOR;
        if ring.len() == RING && ring.iter().all(stands_still) { RING_WIDE } else { RING }
    }

    /// When the next session is to be removed.
    pub(super) fn next_due(&self) -> Option<BootInstant> {
        self.seen.values().map(|seen| seen.due).min()
    }

    /// Takes a session that is to be removed. It is not taken again before a pause.
    pub(super) fn take_due(&mut self, now: BootInstant) -> Option<Shown> {
        let seen = self.seen.values_mut().filter(|seen| seen.due <= now).min_by_key(|seen| seen.due)?;
        seen.due = now.saturating_add(PAUSE);
        Some(seen.shown)
    }

    /// Notes that a session was removed, or was not as it was seen.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.seen.remove(&session);
    }
}

#[cfg(test)]
mod tests;
