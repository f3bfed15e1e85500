//! Waits at one door at a time: that of the contender ahead of the wait which is nearest its turn. All other waits are
//! looked at.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::or_never;

use crate::engine::Door;
use crate::session::Link;
use crate::session::core::Core;

/// The pause after a wait at a door was given up before its time: it was disturbed, and might be again.
const DISTURBED_PAUSE: Duration = Duration::from_millis(20);

/// Waits at one door after the other.
pub(super) async fn run(core: &Arc<Core>, link: &Arc<Link>) -> Infallible {
    loop {
        let next = core.waits.next_door();
        match next.ticket {
            Some(ticket) => wait_at(core, link, ticket).await,
            None => until_another(core, next.changes_at).await,
        }
    }
}

/// Waits until another door may be next.
async fn until_another(core: &Core, changes_at: Option<BootInstant>) {
    let turn = or_never(changes_at.map(|changes_at| core.life.clock.sleep_until(changes_at)));
    tokio::select! {
        biased;
        () = turn => {}
        () = core.waits.until_doors_change() => {}
    }
}

/// Waits at one door until it opens, the time is up, or another one is next.
async fn wait_at(core: &Core, link: &Link, ticket: Ticket) {
    let ends_at = core.life.clock.now().saturating_add(core.timing.busy_interval());
    let mut door = link.connection.wire.door(ticket, core.timing.busy_interval());
    let ended = loop {
        let next = core.waits.next_door();
        if next.ticket != Some(ticket) {
            return;
        }
        tokio::select! {
            biased;
            ended = &mut door => break ended,
            () = until_another(core, next.changes_at) => {}
        }
    };
    match ended {
        Ok(Door::GivenUp) if core.life.clock.now() < ends_at => {
            core.life.clock.sleep_until(core.life.clock.now().saturating_add(DISTURBED_PAUSE)).await;
        }
        Ok(Door::GivenUp) => {}
        Ok(Door::Opened) => core.waits.opened(ticket),
        Err(failure) => {
            tracing::debug!(target: "lockkeeper", %failure, "no wait at a door: this wait is looked at");
            core.waits.opened(ticket);
        }
    }
}
