//! One contender of this process for all of its tasks that wait for the same lock, and what a guard has of it: one
//! turn.
//!
//! A *local queue* is asked for a *turn*. A turn is granted from the local queue's place in the service's queue, and
//! passes to the next task without a request.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `line` | the tasks that wait, first come, first served |
//! | `state` | which task has the key, and what follows when a turn ends: rules, without I/O |
//! | `key` | the right to take a turn, which goes to the next task when dropped, and the attempt of its leader |
//! | `acquire` | the way of a call to its turn |
//! | `watch` | what happens to the place while turns pass |

mod acquire;
mod key;
mod line;
mod state;
mod watch;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::task::Waker;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Caller, Error, FencingToken, Mode, QueueName, Session, Withdrawal};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::contend::local_queue::state::{Effects, QueueState, SharedGrant, TurnEnd};
use crate::contend::{Granted, OnePlace, PendingPlace};
use crate::event::Event;
use crate::hold::{EndOfPlace, EndingGrants, Grant};
use crate::shared::Shared;

pub(crate) use state::TurnBound;

/// One contender of this process in one queue, and the line of the tasks that wait for it.
pub(crate) struct LocalQueue {
    queue: QueueName,
    mode: Mode,
    /// Whether the place is kept while no task uses it.
    is_kept: bool,
    /// Weak, so that no place keeps its keeper alive.
    shared: Weak<Shared>,
    clock: Arc<dyn Clock>,
    ending: EndingGrants,
    state: Mutex<QueueState>,
}

impl LocalQueue {
    fn new(shared: &Arc<Shared>, queue: QueueName, mode: Mode, bound: TurnBound) -> Self {
        let clock = shared.clock.clone();
        let ending = EndingGrants::default();
        let state = Mutex::new(QueueState::new(bound, ending.clone(), clock.now()));
        let is_kept = bound.is_kept();
        Self { queue, mode, is_kept, shared: Arc::downgrade(shared), clock, ending, state }
    }

    /// Changes the state, and applies the effects when it is not locked any more.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut QueueState) -> Effects) {
        let effects = change(&mut self.state.lock());
        self.apply(effects);
    }

    /// Applies the effects of a state change.
    fn apply(self: &Arc<Self>, effects: Effects) {
        let Effects { left, withdrawn, next, woken, watched, told } = effects;
        drop(left);
        drop(withdrawn);
        if let Some(next) = next {
            next.wake();
        }
        woken.into_iter().for_each(Waker::wake);
        if watched.is_none() && told.is_none() {
            return;
        }
        let Some(shared) = self.shared.upgrade() else { return };
        if let Some(grant) = watched {
            self.watch(&shared, grant);
        }
        if let Some((token, why)) = told {
            shared.observers.emit(&Event::Left { lock: self.queue.clone(), token, why });
        }
    }

    /// Ends a turn: passes the lock on, or leaves the place.
    fn end(self: &Arc<Self>, serial: u64, is_lost: bool, now: BootInstant) -> Withdrawal {
        let mut effects = Effects::default();
        let ended = self.state.lock().end(serial, is_lost, now, &mut effects);
        let rejoins = match ended {
            TurnEnd::Before => return Withdrawal::done(Ok(())),
            TurnEnd::Kept => {
                self.apply(effects);
                return Withdrawal::done(Ok(()));
            }
            TurnEnd::Left => None,
            TurnEnd::Rejoins(next, caller) => Some((next, caller)),
        };
        let place = effects.left.take().expect("a place that is left is handed out").place;
        let rejoins = rejoins.map(|(next, caller)| (next, caller, place.session().clone()));
        // Left first: the view of a join does not show it, and the next process is served a request earlier.
        let withdrawal = place.leave();
        self.apply(effects);
        if let Some((next, caller, session)) = rejoins {
            let pending = self.send(session, caller);
            self.change(|state| state.give_up(next, pending, now));
        }
        withdrawal
    }

    /// Sends a join for the first of the line, who sends it again if that fails, or if there is no runtime here.
    fn send(&self, session: Arc<dyn Session>, caller: Caller) -> Option<Box<PendingPlace>> {
        let shared = self.shared.upgrade()?;
        let runtime = shared.runtime_of(self.is_kept).ok()?;
        let _entered = runtime.as_ref().map(Handle::enter);
        let wanted = OnePlace { queue: &self.queue, mode: self.mode, caller, is_kept: self.is_kept, asking: None };
        let can_send = runtime.is_some() || shared.is_polled_by_hand();
        can_send.then(|| wanted.send(&shared, session).ok().map(|sent| Box::new(PendingPlace::Sent(sent))))?
    }
}

impl fmt::Debug for LocalQueue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalQueue").field("lock", &self.queue.as_str()).field("mode", &self.mode).finish()
    }
}

/// One turn of a local queue: dropping it ends it.
#[derive(Debug)]
pub(crate) struct LocalGrant {
    local: Arc<LocalQueue>,
    serial: u64,
    of: Arc<SharedGrant>,
    granted_at: BootInstant,
    is_over: bool,
}

impl LocalGrant {
    /// Makes what the caller is granted by the turn of this number, with the serial of its key.
    fn turn(
        (local, serial): (Arc<LocalQueue>, u64),
        of: Arc<SharedGrant>,
        number: u32,
        granted_at: BootInstant,
    ) -> Granted<Self> {
        let token = FencingToken::new(of.grant.token.as_u64(), number).expect("the service gave out this number");
        let grant = Grant { token, ..of.grant.clone() };
        Granted { place: Self { local, serial, of, granted_at, is_over: false }, grant }
    }

    /// Returns when it was granted.
    pub(crate) const fn granted_at(&self) -> BootInstant {
        self.granted_at
    }

    /// Returns the session under which the place was taken.
    pub(crate) fn session(&self) -> &Arc<dyn Session> {
        &self.of.session
    }

    /// Ends it, and returns the future that is ready when that is certain.
    pub(crate) fn leave(mut self, is_lost: bool, now: BootInstant) -> Withdrawal {
        self.is_over = true;
        self.local.end(self.serial, is_lost, now)
    }

    /// Returns a function that ends it without owning it; ending it twice does nothing.
    pub(crate) fn release_fn(&self) -> impl FnOnce() + Send + 'static {
        let (local, serial) = (self.local.clone(), self.serial);
        move || drop(local.end(serial, false, local.clock.now()))
    }

    /// Returns what leaves the place at the end of this turn, when something else depends on it.
    pub(crate) fn end_of_place(&self) -> EndOfPlace {
        self.local.ending.end_of(self.of.number)
    }
}

impl Drop for LocalGrant {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.local.end(self.serial, false, self.local.clock.now()));
        }
    }
}

/// The fewest local queues among which those that are used no more are looked for.
const SWEEP_MIN: usize = 64;

type QueueKey = (QueueName, Mode, TurnBound);

/// The local queues of one keeper.
#[derive(Default)]
pub(crate) struct LocalQueues {
    known: Mutex<KnownLocalQueues>,
}

#[derive(Default)]
struct KnownLocalQueues {
    /// A local queue with an idle place is in use though no lock refers to it.
    local_queues: HashMap<QueueKey, Arc<LocalQueue>>,
    /// At how many local queues those that are used no more are looked for.
    swept_at: usize,
}

impl LocalQueues {
    /// Returns the local queue for this lock.
    pub(crate) fn of(&self, shared: &Arc<Shared>, queue: &QueueName, mode: Mode, bound: TurnBound) -> Arc<LocalQueue> {
        let mut known = self.known.lock();
        let key = (queue.clone(), mode, bound);
        if let Some(local) = known.local_queues.get(&key) {
            return local.clone();
        }
        if known.local_queues.len() >= known.swept_at.max(SWEEP_MIN) {
            known.local_queues.retain(|_, local| Arc::strong_count(local) > 1 || local.state.lock().has_place());
            known.swept_at = known.local_queues.len() * 2;
        }
        let local = Arc::new(LocalQueue::new(shared, queue.clone(), mode, bound));
        known.local_queues.insert(key, local.clone());
        local
    }

    /// Fails all tasks that wait in line.
    pub(crate) fn fail(&self, error: &Error) {
        let local_queues: Vec<_> = self.known.lock().local_queues.values().cloned().collect();
        for local in local_queues {
            let error = error.clone().at(&local.queue);
            local.change(|state| state.fail_before(u64::MAX, &error));
        }
    }

    /// Returns how many tasks wait in the lines of this lock.
    pub(crate) fn waiters(&self, queue: &QueueName) -> usize {
        let known = self.known.lock();
        let local_queues = known.local_queues.iter().filter(|((of, ..), _)| of == queue);
        local_queues.map(|(_, local)| local.state.lock().line.len()).sum()
    }
}

impl fmt::Debug for LocalQueues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.known.lock().local_queues.keys().map(|(queue, ..)| queue.as_str())).finish()
    }
}
