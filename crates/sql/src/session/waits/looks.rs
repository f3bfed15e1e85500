//! Looks at what is waited for where nothing tells of it, or before anything does: one question for all that is due.

use std::convert::Infallible;
use std::sync::Arc;

use lockkeeper_core::Ticket;
use lockkeeper_session::or_never;

use crate::session::Link;
use crate::session::core::Core;
use crate::statement::{Argument, Statement, What, tickets};

/// Looks at each wait when it is due.
pub(super) async fn run(core: &Arc<Core>, link: &Arc<Link>) -> Infallible {
    loop {
        let due = core.waits.next_due();
        let turn = or_never(due.map(|due| core.life.clock.sleep_until(due)));
        tokio::select! {
            biased;
            () = turn => {}
            () = core.waits.until_looks_change() => continue,
        }
        let due = core.waits.take_due();
        if !due.is_empty() {
            look(core, link, &due).await;
        }
    }
}

/// Asks which of the contenders are gone.
async fn look(core: &Core, link: &Arc<Link>, due: &[Ticket]) {
    let statement = Statement::new("missing", vec![Argument::from(due)]);
    match core.ask(link, statement).await {
        Ok(rows) => tickets(&rows, What::Missing).for_each(|gone| core.waits.departed(gone)),
        // If the connection is of no use any more, the waits end with it.
        Err(_) => core.waits.look_again(due),
    }
}
