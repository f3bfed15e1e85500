//! Hears what becomes of our own contenders.

use std::sync::Arc;

use lockkeeper_session::Ask;

use crate::queue::service::Queues;
use crate::session::News;

/// Takes in what beats tell of our own contenders, until the session is over.
pub(super) async fn run(queues: Arc<Queues>) {
    let core = &queues.service.core;
    let mut told = core.roll.told();
    loop {
        let news = tokio::select! {
            biased;
            _ = core.life.ended() => return,
            news = told.recv() => news,
        };
        match news {
            // Why it is gone is asked when it leaves what is left of it.
            Some(News::Missing(ticket) | News::Broken(ticket)) => {
                if let Some(place) = queues.of_ticket(ticket) {
                    queues.found_gone(&place);
                }
            }
            Some(News::Asked(ticket, ask)) => {
                if let (Some(place), Some(revocation)) = (queues.of_ticket(ticket), Ask::read(&ask)) {
                    place.bond.revoke(revocation);
                }
            }
            None => return,
        }
    }
}
