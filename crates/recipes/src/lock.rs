//! The base of every kind of lock: a keeper's shared part and a name. The recipes define its methods.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::coop;

use crate::call::Call;
use crate::calling;
use crate::contend::{Attempt, Granted, OneJoin, OnePlace, grant_since, not_carried};
use crate::deadlock::Asking;
use crate::guard::Guard;
use crate::handoff::Handoff;
use crate::held_place::HeldPlace;
use crate::keeper::Keeper;
use crate::limits::Limits;
use crate::local_queue::{Bound, LocalQueue, LocalQueues};
use crate::meter::Meter;
use crate::shared::Shared;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Caller, Mode, Modes, QueueName, Result, Wait};

/// A named lock on a service.
#[derive(Clone)]
pub(crate) struct Lock {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: QueueName,
    pub(crate) limits: Limits,
    pub(crate) meter: Meter,
    handoff: Handoff,
    local_queues: Arc<LocalQueues>,
    /// The local queue of this lock, once it was asked for one.
    local_queue: OnceLock<Arc<LocalQueue>>,
}

impl Keeper {
    /// Makes a lock whose contenders are of these modes; refuses it if the service does not carry them.
    ///
    /// All that may take a place is made here, so no backend is ever asked for a mode that it does not carry.
    pub(crate) fn lock(&self, name: &str, modes: Modes) -> Result<Lock> {
        let queue = QueueName::new(name)?;
        if !self.capabilities().modes.has_all(modes) {
            return Err(not_carried(&self.shared, &queue, modes));
        }
        let (shared, local_queues, handoff) = (self.shared.clone(), self.local_queues.clone(), self.shared.handoff);
        let (limits, meter) = (Limits::default(), shared.meters.of(&queue));
        Ok(Lock { shared, queue, limits, meter, handoff, local_queues, local_queue: OnceLock::new() })
    }
}

impl Lock {
    /// Waits for the grant of one place of this mode.
    pub(crate) fn grant<Kind>(
        &self,
        mode: Mode,
        wait: Wait,
    ) -> impl Future<Output = Result<Option<Guard<Kind>>>> + Send {
        self.grant_to(calling::caller(&self.shared, wait), mode, wait, None, None)
    }

    /// Waits for the grant of one place of this mode to this caller, or for a turn of one; an owner key is refused if
    /// its wait closes a circle. A caller that has waited before it asks here says since when.
    pub(crate) async fn grant_to<Kind>(
        &self,
        caller: Caller,
        mode: Mode,
        wait: Wait,
        since: Option<BootInstant>,
        asking: Option<&Asking>,
    ) -> Result<Option<Guard<Kind>>> {
        match self.local_queue(mode) {
            Some(local_queue) => {
                // A task that takes turn after turn gives other tasks of its thread theirs.
                coop::consume_budget().await;
                let call = self.call(mode, since)?;
                let taking = || local_queue.acquire(&self.shared, caller, wait, call.begun_at);
                let turn = match asking.filter(|_| !wait.is_none()) {
                    Some(asking) => call.traced(|| Box::pin(asking.during(taking()))).await,
                    None => call.traced(taking).await,
                };
                self.answer(call, wait, turn)
            }
            None => {
                let place = OnePlace { asking, ..OnePlace::new(&self.queue, mode, caller) };
                self.grant_one(&OneJoin::new(place), mode, wait, since).await
            }
        }
    }

    /// Returns the local queue whose turns this lock is granted by, if the lock is passed on within the process.
    fn local_queue(&self, mode: Mode) -> Option<&Arc<LocalQueue>> {
        let bound = Bound::of(self.handoff)?;
        // A place that is kept for a least time keeps every task out.
        if !matches!(mode, Mode::Mutex | Mode::Write) || self.limits.min_hold.is_some() {
            return None;
        }
        Some(self.local_queue.get_or_init(|| self.local_queues.of(&self.shared, &self.queue, mode, bound)))
    }

    /// Lets each hold of it last for this long at most.
    pub(crate) const fn max_hold(mut self, limit: Duration) -> Self {
        self.limits.max_hold = Some(limit);
        self
    }

    /// Keeps the place of each hold of it for this long at least.
    pub(crate) const fn min_hold(mut self, limit: Duration) -> Self {
        self.limits.min_hold = Some(limit);
        self
    }

    /// Has it go from task to task in this way.
    pub(crate) fn handoff(self, handoff: Handoff) -> Self {
        Self { handoff, local_queue: OnceLock::new(), ..self }
    }

    /// Waits for the grant of one place, by this attempt.
    pub(crate) async fn grant_one<Kind>(
        &self,
        attempt: &impl Attempt<Granted = Granted>,
        mode: Mode,
        wait: Wait,
        since: Option<BootInstant>,
    ) -> Result<Option<Guard<Kind>>> {
        let call = self.call(mode, since)?;
        let granted = call.traced(|| grant_since(&self.shared, attempt, wait, call.begun_at)).await;
        self.answer(call, wait, granted)
    }

    /// Waits for a grant, and makes a guard of each of its places.
    pub(crate) async fn grant_all<Kind, A: Attempt>(
        &self,
        attempt: &A,
        mode: Mode,
        wait: Wait,
        places: impl FnOnce(A::Granted) -> Vec<Granted>,
    ) -> Result<Option<Vec<Guard<Kind>>>> {
        let call = self.call(mode, None)?;
        let granted = call.traced(|| grant_since(&self.shared, attempt, wait, call.begun_at)).await;
        let Some((call, granted)) = self.granted(call, wait, granted)? else {
            return Ok(None);
        };
        let granted = places(granted);
        let others = granted.iter().skip(1).map(|_| call.another(&self.shared, &self.queue, mode));
        let mut calls = others.collect::<Vec<_>>();
        // The call itself becomes the first hold.
        calls.insert(0, call);
        Ok(Some(calls.into_iter().zip(granted).map(|(call, granted)| self.guard(call, granted)).collect()))
    }

    /// Begins a call for a place of this mode, whose caller may have waited since an earlier moment.
    pub(crate) fn call(&self, mode: Mode, since: Option<BootInstant>) -> Result<Call> {
        Call::begin(&self.shared, &self.queue, &self.meter, mode, since)
    }

    /// Ends a call by its outcome, and makes the guard of what was granted.
    pub(crate) fn answer<Kind>(
        &self,
        call: Call,
        wait: Wait,
        outcome: Result<Option<Granted<impl Into<HeldPlace>>>>,
    ) -> Result<Option<Guard<Kind>>> {
        let granted = self.granted(call, wait, outcome)?;
        Ok(granted.map(|(call, granted)| self.guard(call, granted)))
    }

    /// Returns a call with what it was granted; a call that was granted nothing ends here.
    fn granted<G>(&self, call: Call, wait: Wait, outcome: Result<Option<G>>) -> Result<Option<(Call, G)>> {
        match outcome {
            Ok(Some(granted)) => Ok(Some((call, granted))),
            Ok(None) => {
                call.none(&self.shared, &self.queue, wait);
                Ok(None)
            }
            Err(error) => {
                call.failed(&error);
                Err(error)
            }
        }
    }

    fn guard<Kind>(&self, call: Call, granted: Granted<impl Into<HeldPlace>>) -> Guard<Kind> {
        Guard::new(&self.shared, &self.queue, granted, self.limits, call)
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.queue.as_str())
    }
}

/// Unwraps the grant of a wait without a deadline.
pub(crate) fn granted<T>(granted: Option<T>) -> T {
    granted.expect("without a deadline nothing but a grant or an error ends the wait")
}
