//! What every kind of lock is made of: a keeper's shared part and a name. The recipes define its methods.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::calling;
use crate::contend::{Attempt, Granted, OnePlace, grant_since, not_carried};
use crate::deadlock::Asking;
use crate::event::Event;
use crate::guard::Guard;
use crate::handoff::Handoff;
use crate::holds::{OnList, Presence};
use crate::keeper::Keeper;
use crate::limits::Limits;
use crate::possession::Possession;
use crate::seat::{Bound, Seat, Seats};
use crate::shared::Shared;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Caller, Mode, Modes, QueueName, Result, Wait};

/// A named lock on a service.
#[derive(Clone)]
pub(crate) struct Lock {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: QueueName,
    pub(crate) limits: Limits,
    handoff: Handoff,
    seats: Arc<Seats>,
    /// The seat of this lock, once it was asked for one.
    seat: OnceLock<Arc<Seat>>,
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
        let (shared, seats, handoff) = (self.shared.clone(), self.seats.clone(), self.shared.handoff);
        Ok(Lock { shared, queue, limits: Limits::default(), handoff, seats, seat: OnceLock::new() })
    }
}

impl Lock {
    /// Waits for the grant of one place of this mode.
    pub(crate) fn grant<Kind>(
        &self,
        mode: Mode,
        wait: Wait,
    ) -> impl Future<Output = Result<Option<Guard<Kind>>>> + Send {
        self.grant_to(calling::caller(&self.shared, wait), mode, wait, None)
    }

    /// Waits for the grant of one place of this mode to this caller, or for a turn of one; an owner key is refused if
    /// its wait closes a circle.
    pub(crate) async fn grant_to<Kind>(
        &self,
        caller: Caller,
        mode: Mode,
        wait: Wait,
        asking: Option<&Asking>,
    ) -> Result<Option<Guard<Kind>>> {
        match self.seat(mode) {
            Some(seat) => {
                let call = Call::begin(self, mode);
                let taking = seat.acquire(&self.shared, caller, wait, call.begun_at);
                let turn = match asking.filter(|_| !wait.is_none()) {
                    Some(asking) => Box::pin(asking.during(taking)).await?,
                    None => taking.await?,
                };
                Ok(call.end(turn))
            }
            None => {
                let place = OnePlace { asking, ..OnePlace::new(&self.queue, mode, caller) };
                self.grant_one(&place, mode, wait).await
            }
        }
    }

    /// Returns the seat whose turns this lock is granted by, if the lock is passed on within the process.
    fn seat(&self, mode: Mode) -> Option<&Arc<Seat>> {
        let bound = Bound::of(self.handoff)?;
        // A place that is kept for a least time keeps every task out.
        if !matches!(mode, Mode::Mutex | Mode::Write) || self.limits.min_hold.is_some() {
            return None;
        }
        Some(self.seat.get_or_init(|| self.seats.of(&self.shared, &self.queue, mode, bound)))
    }

    pub(crate) fn set_handoff(&mut self, handoff: Handoff) {
        (self.handoff, self.seat) = (handoff, OnceLock::new());
    }

    /// Waits for the grant of one place, by this attempt.
    pub(crate) async fn grant_one<Kind>(
        &self,
        attempt: &impl Attempt<Granted = Granted>,
        mode: Mode,
        wait: Wait,
    ) -> Result<Option<Guard<Kind>>> {
        let call = Call::begin(self, mode);
        let granted = grant_since(&self.shared, attempt, wait, call.begun_at).await?;
        Ok(call.end(granted))
    }

    /// Waits for a grant, and makes a guard of each of its places.
    pub(crate) async fn grant_all<Kind, A: Attempt>(
        &self,
        attempt: &A,
        mode: Mode,
        wait: Wait,
        places: impl FnOnce(A::Granted) -> Vec<Granted>,
    ) -> Result<Option<Vec<Guard<Kind>>>> {
        let call = Call::begin(self, mode);
        let granted = grant_since(&self.shared, attempt, wait, call.begun_at).await?;
        Ok(call.end_with_all(granted.map(places)))
    }
}

/// A call that asks for a grant, listed while it goes on.
struct Call<'a> {
    lock: &'a Lock,
    mode: Mode,
    begun_at: BootInstant,
    listed: OnList,
}

impl<'a> Call<'a> {
    fn begin(lock: &'a Lock, mode: Mode) -> Self {
        let begun_at = lock.shared.clock.now();
        let listed = lock.shared.holds.list(&lock.queue, mode, Presence::Active);
        Self { lock, mode, begun_at, listed }
    }

    /// Makes the guard of what was granted.
    fn end<Kind>(self, granted: Option<Granted<impl Into<Possession>>>) -> Option<Guard<Kind>> {
        let Some(granted) = granted else {
            self.lock.tell_of_none(self.begun_at);
            return None;
        };
        Some(self.lock.guard(granted, self.begun_at, self.listed))
    }

    /// Makes a guard of each place that was granted.
    fn end_with_all<Kind>(self, granted: Option<Vec<Granted>>) -> Option<Vec<Guard<Kind>>> {
        let Self { lock, mode, begun_at, listed } = self;
        let Some(granted) = granted else {
            lock.tell_of_none(begun_at);
            return None;
        };
        let mut of_call = Some(listed);
        let guard = |granted| {
            let listed = of_call.take();
            let listed = listed.unwrap_or_else(|| lock.shared.holds.list(&lock.queue, mode, Presence::Active));
            lock.guard(granted, begun_at, listed)
        };
        Some(granted.into_iter().map(guard).collect())
    }
}

impl Lock {
    fn guard<Kind>(
        &self,
        granted: Granted<impl Into<Possession>>,
        called_at: BootInstant,
        listed: OnList,
    ) -> Guard<Kind> {
        Guard::new(&self.shared, &self.queue, granted, called_at, self.limits, listed)
    }

    /// Tells observers of a call that was granted nothing.
    fn tell_of_none(&self, called_at: BootInstant) {
        let waited = self.shared.clock.now().saturating_duration_since(called_at);
        self.shared.observers.emit(&Event::NotAcquired { lock: self.queue.clone(), waited });
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
