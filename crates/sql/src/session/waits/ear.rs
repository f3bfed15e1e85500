//! Has the server tell the session of departures while it waits, or holds for longer than most locks are held: each
//! listener costs the server at every hand-off.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::session::core::Core;
use crate::session::link::Link;
use crate::session::waits::book::Telling;

/// How long a session holds before it listens: a hold that ends sooner ends before a request to give it up matters.
const HELD_FOR: Duration = Duration::from_millis(100);

/// How long it neither holds nor waits before it listens no more: one that waits now and then does not begin each time.
const IDLE_FOR: Duration = Duration::from_secs(60);

/// How often it is found out whether it is idle.
const IDLE_CHECK: Duration = Duration::from_secs(15);

/// The pause before it asks again if too many listen, or it could not be asked.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// Listens whenever that is worth its price.
pub(super) async fn run(core: &Arc<Core>, link: &Arc<Link>) -> Infallible {
    loop {
        until_wanted(core).await;
        match link.wire.listen(core.id).await {
            Ok(true) => {
                core.waits.tell_by(|since| Telling::Told { since });
                until_idle(core).await;
                if !core.waits.is_told() {
                    // A pooler serves each statement over another connection: the server tells this session nothing.
                    return std::future::pending().await;
                }
                core.waits.tell_by(|_| Telling::Soon);
                let _ = link.wire.unlisten(core.id).await;
                continue;
            }
            Ok(false) => tracing::debug!(target: "lockkeeper", "too many sessions listen: waits are looked at"),
            Err(failure) => {
                tracing::debug!(target: "lockkeeper", %failure, "the session cannot listen: waits are looked at");
                if failure.needs_another() {
                    link.shut();
                }
            }
        }
        core.waits.tell_by(|_| Telling::Looks);
        pause(core, REFUSED_PAUSE).await;
    }
}

/// Waits until the session waits, or has held something for a while.
async fn until_wanted(core: &Core) {
    let held = async {
        loop {
            core.roll.until_standing().await;
            core.roll.has_lasting();
            pause(core, HELD_FOR).await;
            if core.roll.has_lasting() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = core.waits.until_begun() => {}
        () = held => {}
    }
}

/// Waits until the session has neither held nor waited for a while, or hears nothing.
async fn until_idle(core: &Core) {
    let mut idle_since = None;
    loop {
        pause(core, IDLE_CHECK).await;
        let now = core.clock.now();
        let since = *idle_since.get_or_insert(now);
        if core.is_busy() {
            idle_since = None;
        } else if now.saturating_duration_since(since) >= IDLE_FOR {
            return;
        }
        if !core.waits.is_told() {
            return;
        }
    }
}

async fn pause(core: &Core, duration: Duration) {
    core.clock.sleep_until(core.clock.now().saturating_add(duration)).await;
}
