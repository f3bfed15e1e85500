//! Waits for the contender ahead. It is gone for good once the server told so over the connection on which it was seen,
//! or answered there that it is not stored: what is removed never comes back. All else is a reason to look again.

use std::sync::Arc;

use lockkeeper_core::{BoxFuture, Departure, Extent, Ticket};
use lockkeeper_session::{Departing, Effect, Failure, Link as _};

use crate::queue::place::{Place, ticket_of};
use crate::queue::rows::Answer;
use crate::queue::service::{Queues, Sql, looking};
use crate::session::{Core, Link, Told, Wake};

/// Begins to wait, now.
pub(super) fn begin(queues: &Arc<Queues>, departing: Departing<Sql>) -> BoxFuture<Result<Departure, Failure>> {
    let Departing { link, ahead, mine, .. } = departing;
    let Some(ahead) = ticket_of(&ahead) else {
        // No contender here ever had that name.
        return Box::pin(std::future::ready(Ok(Departure::Gone)));
    };
    let core = queues.service.core.clone();
    let told = wait(&core, &link, ahead, mine.as_deref());
    Box::pin(async move { until_gone(&core, &link, ahead, mine.as_deref(), told).await })
}

fn wait(core: &Core, link: &Arc<Link>, ahead: Ticket, mine: Option<&Place>) -> Told {
    // An onlooker looks as the next in line does.
    let nearness = mine.map_or(0, |mine| mine.own.ahead().saturating_sub(1));
    let line = mine.map(|mine| (mine.queue.clone(), mine.token));
    core.waits.departure(link, ahead, nearness, line)
}

async fn until_gone(
    core: &Core,
    link: &Arc<Link>,
    ahead: Ticket,
    mine: Option<&Place>,
    mut told: Told,
) -> Result<Departure, Failure> {
    loop {
        match told.await {
            Wake::Departed => return Ok(Departure::Gone),
            Wake::ConnectionOver => return Err(Failure::broken(Effect::None)),
            Wake::Look => {}
        }
        if let Some(mine) = mine
            && let Err(failure) = find_place(core, link, mine).await
        {
            core.life.pause_after(link, &failure).await;
        }
        told = wait(core, link, ahead, mine);
    }
}

/// Finds out how near our own contender is to its turn.
async fn find_place(core: &Core, link: &Arc<Link>, mine: &Place) -> Result<(), Failure> {
    let rows = core.ask(link, looking(&mine.queue, Extent::Around(Some(&mine.id)))).await?;
    mine.own.note(Answer::read_ok(rows)?.view(link.connection_number())?.ahead_of(&mine.id));
    Ok(())
}
