//! What every kind of lock is made of: a keeper's shared part and a name. The recipes define its methods.

use std::fmt;
use std::sync::Arc;

use crate::calling;
use crate::contend::{Attempt, Granted, OnePlace, grant_by, not_carried};
use crate::event::Event;
use crate::guard::Guard;
use crate::holds::Presence;
use crate::keeper::Keeper;
use crate::limits::Limits;
use crate::shared::Shared;
use lockkeeper_core::{Mode, Modes, QueueName, Result, Wait};

/// A named lock on a service.
#[derive(Clone)]
pub(crate) struct Lock {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: QueueName,
    pub(crate) limits: Limits,
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
        Ok(Lock { shared: self.shared.clone(), queue, limits: Limits::default() })
    }
}

impl Lock {
    /// Waits for the grant of one place of this mode.
    pub(crate) async fn grant<Kind>(&self, mode: Mode, wait: Wait) -> Result<Option<Guard<Kind>>> {
        let caller = calling::caller(&self.shared, wait);
        self.grant_one(&OnePlace { queue: &self.queue, mode, caller }, mode, wait).await
    }

    /// Waits for the grant of one place, by this attempt.
    pub(crate) async fn grant_one<Kind>(
        &self,
        attempt: &impl Attempt<Granted = Granted>,
        mode: Mode,
        wait: Wait,
    ) -> Result<Option<Guard<Kind>>> {
        self.grant_all(attempt, mode, wait, |granted| vec![granted]).await.map(|guards| guards?.pop())
    }

    /// Waits for a grant, and makes a guard of each of its places.
    pub(crate) async fn grant_all<Kind, A: Attempt>(
        &self,
        attempt: &A,
        mode: Mode,
        wait: Wait,
        places: impl FnOnce(A::Granted) -> Vec<Granted>,
    ) -> Result<Option<Vec<Guard<Kind>>>> {
        let called_at = self.shared.clock.now();
        let _listed = self.shared.holds.list(&self.queue, mode, None, Presence::Active);
        let Some(granted) = grant_by(&self.shared, attempt, wait).await? else {
            let waited = self.shared.clock.now().saturating_duration_since(called_at);
            self.shared.observers.emit(&Event::NotAcquired { lock: self.queue.clone(), waited });
            return Ok(None);
        };
        let guard = |granted| Guard::new(&self.shared, &self.queue, mode, granted, called_at, self.limits);
        Ok(Some(places(granted).into_iter().map(guard).collect()))
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
