//! Hears what becomes of our own contenders.

use std::sync::Arc;

use crate::queue::service::Queues;

/// Takes in what beats tell of our own contenders, until the session is over.
pub(super) async fn run(queues: Arc<Queues>) {
    let core = &queues.service.core;
    let mut told = core.contenders.told();
    loop {
        tokio::select! {
            biased;
            _ = core.life.ended() => return,
            news = told.recv() => match news {
                Some(news) => queues.hear(news),
                None => return,
            }
        }
    }
}
