//! Waits for one named lock at a time: that of the contender ahead of the wait which is nearest its turn. All other
//! waits are looked at.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::or_never;

use crate::engine::NamedLockWait;
use crate::session::Link;
use crate::session::core::Core;

/// The pause after a wait for a named lock was given up before its time: it was disturbed, and might be again.
const DISTURBED_PAUSE: Duration = Duration::from_millis(20);

/// Waits for one named lock after the other.
pub(super) async fn run(core: &Arc<Core>, link: &Arc<Link>) -> Infallible {
    loop {
        let next = core.waits.next_named_lock();
        match next.ticket {
            Some(ticket) => wait_at(core, link, ticket).await,
            None => until_another(core, next.changes_at).await,
        }
    }
}

/// Waits until another named lock may be next.
async fn until_another(core: &Core, changes_at: Option<BootInstant>) {
    let turn = or_never(changes_at.map(|changes_at| core.life.clock.sleep_until(changes_at)));
    tokio::select! {
        biased;
        () = turn => {}
        () = core.waits.until_named_locks_change() => {}
    }
}

/// Waits for one named lock until it opens, the time is up, or another one is next.
async fn wait_at(core: &Core, link: &Link, ticket: Ticket) {
    let ends_at = core.life.clock.now().saturating_add(core.timing.busy_interval());
    let mut named_lock = link.connection.wire.await_named_lock(ticket, core.timing.busy_interval());
    let ended = loop {
        let next = core.waits.next_named_lock();
        if next.ticket != Some(ticket) {
            return;
        }
        tokio::select! {
            biased;
            ended = &mut named_lock => break ended,
            () = until_another(core, next.changes_at) => {}
        }
    };
    match ended {
        Ok(NamedLockWait::GivenUp) if core.life.clock.now() < ends_at => {
            core.life.clock.sleep_until(core.life.clock.now().saturating_add(DISTURBED_PAUSE)).await;
        }
        Ok(NamedLockWait::GivenUp) => {}
        Ok(NamedLockWait::Free) => core.waits.opened(ticket),
        Err(failure) => {
            tracing::debug!(target: "lockkeeper", %failure, "no wait for a named lock: this wait is looked at");
            core.waits.opened(ticket);
        }
    }
}
