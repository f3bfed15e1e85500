//! The base of every kind of lock: a keeper's shared part and a name. The recipes define its methods.

pub(crate) mod guard;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Caller, Mode, Modes, QueueName, Result, Wait};
use tokio::task::coop;

use crate::contend::local_queue::{LocalQueue, LocalQueues, TurnBound};
use crate::contend::{GrantAttempt, Granted, OnePlace, PlaceAttempt, grant, not_carried};
use crate::deadlock::KeyCall;
use crate::event::meter::Meter;
use crate::handoff::Handoff;
use crate::keeper::Keeper;
use crate::lock::guard::Guard;
use crate::lock::guard::held_place::HeldPlace;
use crate::lock::guard::held_place::HoldLimits;
use crate::shared::Shared;
use crate::shared::call;
use crate::shared::call::LockCall;

/// A named lock on a service.
#[derive(Clone)]
pub(crate) struct Lock {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: QueueName,
    pub(crate) limits: HoldLimits,
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
        let (limits, meter) = (HoldLimits::default(), shared.meters.of(&queue));
        Ok(Lock { shared, queue, limits, meter, handoff, local_queues, local_queue: OnceLock::new() })
    }
}

/// How a call is to be granted a place of a lock.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) mode: Mode,
    pub(crate) wait: Wait,
    pub(crate) caller: Caller,
    /// Since when the caller has waited, if it has before this call.
    pub(crate) since: Option<BootInstant>,
    /// The call of an owner key that is refused if its wait closes a circle.
    pub(crate) asking: Option<&'a KeyCall>,
}

impl Lock {
    /// Plans a call of the present task or thread that begins now.
    pub(crate) fn plan(&self, mode: Mode, wait: Wait) -> Plan<'static> {
        Plan { mode, wait, caller: call::caller(&self.shared, wait), since: None, asking: None }
    }

    /// Waits for the grant of one place, or of a turn of one.
    pub(crate) async fn grant<Kind>(&self, plan: &Plan<'_>) -> Result<Option<Guard<Kind>>> {
        let &Plan { mode, wait, since, asking, .. } = plan;
        let Some(local) = self.local_queue(mode) else {
            let wanted = OnePlace { asking, ..OnePlace::new(&self.queue, mode, plan.caller) };
            let answer = self.answer(mode, wait, since, &mut PlaceAttempt::new(wanted, &mut None)).await?;
            return Ok(answer.map(|(call, granted)| self.guard(call, granted)));
        };
        // A task that takes turn after turn gives other tasks of its thread theirs.
        coop::consume_budget().await;
        let call = self.call(mode, since)?;
        let taking = || local.acquire(&self.shared, &plan.caller, wait, call.begun_at);
        let turn = match asking.filter(|_| !wait.is_none()) {
            Some(asking) => call.traced(|| Box::pin(asking.during(taking()))).await,
            None => call.traced(taking).await,
        };
        let answer = self.answered(call, wait, turn)?;
        Ok(answer.map(|(call, granted)| self.guard(call, granted)))
    }

    /// Waits for what this attempt is granted; the call is what becomes a hold.
    pub(crate) async fn answer<A: GrantAttempt>(
        &self,
        mode: Mode,
        wait: Wait,
        since: Option<BootInstant>,
        attempt: &mut A,
    ) -> Result<Option<(LockCall, A::Granted)>> {
        let call = self.call(mode, since)?;
        let granted = call.traced(|| grant(&self.shared, &self.queue, attempt, wait, Some(call.begun_at))).await;
        self.answered(call, wait, granted)
    }

    /// Returns the local queue whose turns this lock is granted by, if the lock is passed on within the process.
    fn local_queue(&self, mode: Mode) -> Option<&Arc<LocalQueue>> {
        let bound = TurnBound::of(self.handoff)?;
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

    /// Begins a call for a place of this mode, whose caller may have waited since an earlier moment.
    pub(crate) fn call(&self, mode: Mode, since: Option<BootInstant>) -> Result<LockCall> {
        LockCall::begin(&self.shared, &self.queue, &self.meter, mode, since)
    }

    /// Returns a call with what it was granted; a call that was granted nothing ends here.
    pub(crate) fn answered<G>(
        &self,
        call: LockCall,
        wait: Wait,
        outcome: Result<Option<G>>,
    ) -> Result<Option<(LockCall, G)>> {
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

    /// Makes the guard of what a call was granted.
    pub(crate) fn guard<Kind>(&self, call: LockCall, granted: Granted<impl Into<HeldPlace>>) -> Guard<Kind> {
        Guard::new(&self.shared, &self.queue, granted, self.limits, call)
    }

    /// Makes a guard of each place that a call was granted.
    pub(crate) fn guards<Kind>(&self, call: LockCall, mode: Mode, granted: Vec<Granted>) -> Vec<Guard<Kind>> {
        let others = granted.iter().skip(1).map(|_| call.another(&self.shared, &self.queue, mode));
        let mut calls = others.collect::<Vec<_>>();
        // The call itself becomes the first hold.
        calls.insert(0, call);
        calls.into_iter().zip(granted).map(|(call, granted)| self.guard(call, granted)).collect()
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
