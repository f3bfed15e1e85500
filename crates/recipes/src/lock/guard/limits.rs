//! The longest time of a hold, and the shortest of its place.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{LossReason, Withdrawal};
use tokio::runtime::Handle;

use crate::hold::Hold;
use crate::lock::guard::held_place::HeldPlace;

/// The limits that were set for the holds of a lock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Limits {
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
}

/// The limits of one hold, counted from its grant.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) limits: Limits,
    /// When the hold ends without a release.
    pub(crate) ends_at: Option<BootInstant>,
    /// Until when its place is kept after the release, and the runtime that keeps it.
    kept_until: Option<(BootInstant, Handle)>,
}

impl Term {
    /// Counts from the grant, if there are limits. Without a runtime no task can keep a released place.
    pub(crate) fn begin(limits: Limits, granted_at: BootInstant) -> Option<Self> {
        if limits == Limits::default() {
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
