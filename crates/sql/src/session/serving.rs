//! Serves the waits of a session over a connection: by what the server tells, by one named lock at a time, and by looks
//! where nothing tells, or before anything does.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{SessionTiming as _, or_never};
use tokio::sync::mpsc;

use crate::engine::{Hint, NamedLockWait, WakeMethod};
use crate::look::SqlLink;
use crate::session::{Core, listening};
use crate::statement::{Argument, RowKind, Statement, tickets};

/// The pause after a wait for a named lock was given up before its time: it was disturbed, and might be again.
const DISTURBED_PAUSE: Duration = Duration::from_millis(20);

/// Serves the waits over a connection. It never returns; all waits end when the connection is detached.
pub(super) async fn serve(core: &Arc<Core>, link: &Arc<SqlLink>, hints: mpsc::Receiver<Hint>) -> Infallible {
    let wake_method = async {
        match link.connection.wake_method {
            WakeMethod::Notified => listening::run(core, link).await,
            WakeMethod::NamedLocks => wait_for_named_locks(core, link).await,
            WakeMethod::Polled => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        never = hear(core, hints) => never,
        never = wake_method => never,
        never = look_at_due(core, link) => never,
    }
}

async fn hear(core: &Core, mut hints: mpsc::Receiver<Hint>) -> Infallible {
    while let Some(hint) = hints.recv().await {
        match hint {
            Hint::Departed(ticket) => core.waits.departed(ticket),
            Hint::Changed { name, part } => core.waits.on_table(|table, _| table.changed(&name, part)),
            Hint::Asked => core.life.urge(),
        }
    }
    // They end with the connection, of which the driver hears.
    std::future::pending().await
}

async fn look_at_due(core: &Arc<Core>, link: &Arc<SqlLink>) -> Infallible {
    loop {
        let due = core.waits.on_table(|table, _| table.next_due());
        let turn = or_never(due.map(|due| core.life.clock.sleep_until(due)));
        tokio::select! {
            biased;
            () = turn => {}
            () = core.waits.until_looks_change() => continue,
        }
        let due = core.waits.on_table(|table, now| table.take_due(now));
        if !due.is_empty() {
            look(core, link, &due).await;
        }
    }
}

async fn look(core: &Core, link: &Arc<SqlLink>, due: &[Ticket]) {
    let statement = Statement::new("missing", vec![Argument::from(due)]);
    match core.ask(link, statement).await {
        Ok(rows) => tickets(&rows, RowKind::Missing).for_each(|gone| core.waits.departed(gone)),
        // If the connection is of no use any more, the waits end with it.
        Err(_) => core.waits.on_table(|table, now| table.look_again(due, now)),
    }
}

async fn wait_for_named_locks(core: &Arc<Core>, link: &Arc<SqlLink>) -> Infallible {
    loop {
        let next = core.waits.on_table(|table, now| table.next_named_lock(now));
        match next.ticket {
            Some(ticket) => wait_at(core, link, ticket).await,
            None => until_another(core, next.changes_at).await,
        }
    }
}

async fn until_another(core: &Core, changes_at: Option<BootInstant>) {
    let turn = or_never(changes_at.map(|changes_at| core.life.clock.sleep_until(changes_at)));
    tokio::select! {
        biased;
        () = turn => {}
        () = core.waits.until_named_locks_change() => {}
    }
}

/// Waits for one named lock until it opens, the time is up, or another one is next.
async fn wait_at(core: &Core, link: &SqlLink, ticket: Ticket) {
    let ends_at = core.life.clock.now().saturating_add(core.timing.holding_interval());
    let mut named_lock = link.connection.wire.await_named_lock(ticket, core.timing.holding_interval());
    let ended = loop {
        let next = core.waits.on_table(|table, now| table.next_named_lock(now));
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
