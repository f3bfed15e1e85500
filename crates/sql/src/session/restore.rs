//! Takes a session over to another connection: nothing that was sent over an older one takes effect any more, and it is
//! known which of our contenders stand.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Bug, Failure, Server};
use tokio::sync::mpsc;

use crate::engine::{Connected, Hint};
use crate::look::Lookout;
use crate::session::Link;
use crate::session::beat::note_ours;
use crate::session::core::Core;
use crate::session::settling::{self, Unsettled, greet};
use crate::statement::{Argument, Statement, What, tickets, word};

/// A connection that the session has.
pub(super) struct Taken {
    pub(super) link: Arc<Link>,
    pub(super) hints: mpsc::Receiver<Hint>,
    pub(super) unsettled: Option<Unsettled>,
    /// When the beat was sent with which it was taken.
    pub(super) proven_at: BootInstant,
}

/// Takes a session over to this connection. `unsettled` is what was known over an earlier one.
pub(super) async fn restore(
    core: &Core,
    connected: Connected,
    number: u64,
    server: Server,
    unsettled: Option<&Unsettled>,
) -> Result<Taken, Failure> {
    let Connected { wire, greeting, hints } = connected;
    let link = Link::new(Lookout::new(wire, server, greeting), number, ());
    let greeted = core.ask(&link, greet(&link.connection.instance));
    let (proven_at, kept) = (core.life.clock.now(), core.contenders.kept());
    let resumed = core.ask(&link, resume(core, number, &kept));
    let greeted = core.patiently(greeted).await?;
    let unsettled = Unsettled::read(&greeted, core.life.clock.now(), unsettled)?;
    let rows = core.patiently(resumed).await?;
    match word(&rows)? {
        "ok" => {}
        "gone" => return Err(settling::miss_session(core, &link).await),
        _ => return Err(Failure::superseded()),
    }
    core.proven(proven_at);
    let missing: Vec<Ticket> = if core.epoch(number) > 1 {
        let standing: BTreeSet<_> = tickets(&rows, What::Stands).collect();
        kept.into_iter().filter(|ticket| !standing.contains(ticket)).collect()
    } else {
        tickets(&rows, What::Missing).collect()
    };
    settling::miss_contenders(core, &link, &rows, &missing).await?;
    note_ours(core, &rows);
    core.contenders.tell_missing(missing);
    Ok(Taken { link, hints, unsettled, proven_at })
}

fn resume(core: &Core, number: u64, kept: &[Ticket]) -> Statement {
    let (epoch, beat) = (Argument::Int(core.epoch(number)), Argument::Int(core.next_beat()));
    let mut arguments = vec![core.id.into(), epoch, beat, kept.into()];
    if core.life.testing.has(Bug::IgnoresEpochs) {
        arguments.extend([Argument::Ids(Vec::new()), Argument::Int(0)]);
        return Statement::new("beat", arguments);
    }
    Statement::new("resume", arguments)
}
