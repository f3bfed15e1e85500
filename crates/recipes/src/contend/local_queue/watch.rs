//! Watches of a local queue's place while turns pass, or none is taken: it is lost, other contenders come, it is asked
//! for, it has been idle for long enough.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, QueueView, Result};

use crate::contend::local_queue::LocalQueue;
use crate::contend::local_queue::state::SharedGrant;
use crate::shared::Shared;

/// How long a grant lasts before it is listened for requests to give it up: that may cost the service a read, and most
/// grants are over sooner.
const REVOKED_AFTER: Duration = Duration::from_millis(100);

impl LocalQueue {
    /// Has the place watched, if it is to be watched from now on.
    pub(super) fn watch_if_needed(self: &Arc<Self>, shared: &Shared) {
        let grant = self.state.lock().watch();
        if let Some(grant) = grant {
            self.watch(shared, grant);
        }
    }

    /// Has the place of this grant watched until the grant is over.
    pub(super) fn watch(self: &Arc<Self>, shared: &Shared, grant: Arc<SharedGrant>) {
        shared.spawn_watch(self.is_kept, run(Arc::downgrade(self), grant));
    }
}

/// Watches a grant until it is over.
fn run(local: Weak<LocalQueue>, grant: Arc<SharedGrant>) -> BoxFuture<()> {
    Box::pin(async move {
        tokio::select! {
            biased;
            _ = grant.grant.standing.lost() => tell(&local, |local| local.change(|state| state.lost(grant.number))),
            () = until_others(&local, &grant) => {}
            () = until_asked(&local, &grant) => {}
            () = until_idle(&local, &grant) => {}
        }
    })
}

/// Tells the local queue when another contender comes; never ends.
async fn until_others(local: &Weak<LocalQueue>, grant: &SharedGrant) {
    if let Some(alone) = &grant.alone {
        // After an error nothing is known of others, so they may be there. It costs a join too many at most.
        let _ = seen_others(local, grant, alone.clone()).await;
        tell(local, |local| local.change(|state| state.told_of_others(grant.number)));
    }
    std::future::pending::<()>().await;
}

/// Has the place left once it was idle for long enough; never ends.
async fn until_idle(local: &Weak<LocalQueue>, grant: &SharedGrant) {
    while let Some((clock, again_at)) = local.upgrade().filter(|local| local.is_kept).and_then(|local| {
        let again_at = look_idle(&local, grant.number)?;
        Some((local.clock.clone(), again_at))
    }) {
        clock.sleep_until(again_at).await;
    }
    std::future::pending::<()>().await;
}

/// Leaves a place that was idle for long enough; otherwise returns when to look again, if the grant is not over.
fn look_idle(local: &Arc<LocalQueue>, grant: u64) -> Option<BootInstant> {
    let mut again_at = None;
    local.change(|state| {
        let (next_at, effects) = state.look_idle(grant, local.clock.now());
        again_at = next_at;
        effects
    });
    again_at
}

async fn seen_others(local: &Weak<LocalQueue>, grant: &SharedGrant, mut seen: QueueView) -> Result<()> {
    loop {
        let Some(queue) = local.upgrade().map(|local| local.queue.clone()) else { return Ok(()) };
        seen = grant.session.changed(&queue, &seen).await?;
        if seen.contenders.iter().any(|contender| contender.id != grant.grant.id) || seen.elsewhere.is_some() {
            return Ok(());
        }
    }
}

/// Tells the local queue when it is asked to give the lock up; never ends.
async fn until_asked(local: &Weak<LocalQueue>, grant: &SharedGrant) {
    let Some(clock) = local.upgrade().map(|local| local.clock.clone()) else { return };
    clock.sleep_until(clock.now().saturating_add(REVOKED_AFTER)).await;
    grant.grant.standing.revoked().await;
    tell(local, |local| local.change(|state| state.asked(grant.number)));
    std::future::pending::<()>().await;
}

fn tell(local: &Weak<LocalQueue>, what: impl FnOnce(&Arc<LocalQueue>)) {
    if let Some(local) = local.upgrade() {
        what(&local);
    }
}
