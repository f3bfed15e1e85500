//! All waits of a session: for the departure of a contender, and for the change of a queue or its value.
//!
//! What ends them: what the server tells, a look at all that are due, a beat's answer, or a named lock that is free.
//! All end with the connection.

mod handoff_rate;
mod listen;
mod looks;
mod named_locks;
mod told;
mod wait_table;

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::engine::{Hint, WakeMethod};
use crate::session::Link;
use crate::session::core::Core;

pub(crate) use self::told::{Told, Waits, Wake};

/// Serves the waits over a connection. It never returns; all waits end when the connection is detached.
pub(super) async fn serve(core: &Arc<Core>, link: &Arc<Link>, hints: mpsc::Receiver<Hint>) -> Infallible {
    let wake_method = async {
        match link.connection.wake_method {
            WakeMethod::Notified => listen::run(core, link).await,
            WakeMethod::NamedLocks => named_locks::run(core, link).await,
            WakeMethod::Polled => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        never = hear(core, hints) => never,
        never = wake_method => never,
        never = looks::run(core, link) => never,
    }
}

/// Takes in what the server tells.
async fn hear(core: &Core, mut hints: mpsc::Receiver<Hint>) -> Infallible {
    while let Some(hint) = hints.recv().await {
        match hint {
            Hint::Departed(ticket) => core.waits.departed(ticket),
            Hint::Changed { name, part } => core.waits.changed(&name, part),
            Hint::Asked => core.life.urge(),
        }
    }
    // They end with the connection, of which the driver hears.
    std::future::pending().await
}
