//! The held place of a guard, in the service's queue or a turn of one that its process shares, and the limits of its
//! hold.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{LossReason, Session, Withdrawal};
use tokio::runtime::Handle;

use crate::contend::ArmedPlace;
use crate::contend::local_queue::LocalGrant;
use crate::hold::{EndOfPlace, Hold};

/// A place in a queue that is held, or a turn of one; dropping it gives it back.
#[derive(Debug)]
pub(crate) enum HeldPlace {
    Place(ArmedPlace),
    Local(LocalGrant),
}

impl HeldPlace {
    /// Returns the session under which the place was taken, for a place beside it. Then it is left when this is given
    /// back: no later turn may have what another contender of this process stands beside.
    pub(crate) fn anchor(&self) -> &Arc<dyn Session> {
        if let Some(end_of_place) = self.end_of_place() {
            end_of_place.note();
        }
        self.session()
    }

    /// Returns the session under which the place was taken.
    pub(crate) fn session(&self) -> &Arc<dyn Session> {
        match self {
            Self::Place(place) => place.session(),
            Self::Local(turn) => turn.session(),
        }
    }

    /// Returns what has the place of a turn left when the turn ends.
    pub(crate) fn end_of_place(&self) -> Option<EndOfPlace> {
        match self {
            Self::Place(_) => None,
            Self::Local(turn) => Some(turn.end_of_place()),
        }
    }

    /// Returns when it was granted, where that is known.
    pub(crate) fn granted_at(&self) -> Option<BootInstant> {
        match self {
            Self::Place(_) => None,
            Self::Local(turn) => Some(turn.granted_at()),
        }
    }

    /// Gives it back now, and returns the future that is ready when that is certain.
    pub(crate) fn leave(self, is_lost: bool, now: BootInstant) -> Withdrawal {
        match self {
            Self::Place(place) => place.leave(),
            Self::Local(turn) => turn.leave(is_lost, now),
        }
    }

    /// Returns a function that gives it back without owning it; doing so twice does nothing.
    pub(crate) fn release_fn(&self) -> Box<dyn FnOnce() + Send> {
        match self {
            Self::Place(place) => Box::new(place.release_fn()),
            Self::Local(turn) => Box::new(turn.release_fn()),
        }
    }
}

impl From<ArmedPlace> for HeldPlace {
    fn from(place: ArmedPlace) -> Self {
        Self::Place(place)
    }
}

impl From<LocalGrant> for HeldPlace {
    fn from(turn: LocalGrant) -> Self {
        Self::Local(turn)
    }
}

/// The limits that were set for the holds of a lock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct HoldLimits {
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
}

/// The limits of one hold, counted from its grant.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) limits: HoldLimits,
    /// When the hold ends without a release.
    pub(crate) ends_at: Option<BootInstant>,
    /// Until when its place is kept after the release, and the runtime that keeps it.
    kept_until: Option<(BootInstant, Handle)>,
}

impl Term {
    /// Counts from the grant, if there are limits. Without a runtime no task can keep a released place.
    pub(crate) fn begin(limits: HoldLimits, granted_at: BootInstant) -> Option<Self> {
        if limits == HoldLimits::default() {
            return None;
        }
        let ends_at = limits.max_hold.map(|limit| granted_at.saturating_add(limit));
        let kept_until = limits.min_hold.and_then(|limit| {
            let until = granted_at.saturating_add(limit);
            // With both limits set, the place is to be free at the end of the hold in any case.
            let until = ends_at.map_or(until, |end| until.min(end));
            Some((until, Handle::try_current().ok()?))
        });
        Some(Self { limits, ends_at, kept_until })
    }

    /// Leaves a released place: now, or when it has been kept for long enough.
    pub(crate) fn leave(&self, clock: &Arc<dyn Clock>, place: HeldPlace, now: BootInstant) -> Withdrawal {
        let Some((until, runtime)) = self.kept_until.as_ref().filter(|&&(until, _)| now < until) else {
            return place.leave(false, now);
        };
        let (clock, until) = (clock.clone(), *until);
        let kept = runtime.spawn(async move {
            // Called within the task, since a clock may need the runtime, and the guard may be dropped outside of it.
            clock.sleep_until(until).await;
            place.leave(false, clock.now()).await
        });
        // A task that ended with its runtime has dropped the place, which withdraws it.
        Withdrawal::under_way(Box::pin(async move { kept.await.unwrap_or(Ok(())) }))
    }
}

/// Leaves a place when its hold reaches its limit, also if no caller looks at the hold. It needs a running runtime.
pub(crate) fn leave_at_end(hold: &Hold, place: &HeldPlace) {
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    let (hold, leave) = (hold.clone(), place.release_fn());
    runtime.spawn(async move {
        if hold.lost().await == LossReason::MaxHold {
            leave();
        }
    });
}
