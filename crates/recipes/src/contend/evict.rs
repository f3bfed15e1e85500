//! The eviction of an idle holder by a call that does not wait.
//!
//! A call without a wait looks and takes no place in line. A process that keeps an idle place hears of joins alone, so
//! such a call leaves a join behind, which stands until the place is given up, for a short time at most.

use std::time::Duration;

use lockkeeper_core::{BoxFuture, ContenderId, Enqueued, Result};

use crate::contend::place::Place;
use crate::shared::Shared;

/// How long the join stands at most: many times what a notice and a look take, and short for those that join behind it.
const STANDS_MAX: Duration = Duration::from_millis(100);

/// Evicts a holder that may be idle: leaves this join in the queue until that contender has left, without waiting for
/// either. Without a runtime the join is withdrawn at once, and the holder may not hear of it.
pub(super) fn evict_idle_holder(shared: &Shared, place: Place, answer: BoxFuture<Result<Enqueued>>, kept: ContenderId) {
    let clock = shared.clock.clone();
    let ends_at = clock.now().saturating_add(STANDS_MAX);
    let stand = async move {
        let until_left = async {
            // The outcome of neither matters: the caller does not wait, and may call again.
            if let Ok(joined) = answer.await {
                let seen = joined.view.connection;
                let _ = place.session.departure(place.queue(), Some(&joined.id), &kept, seen).await;
            }
        };
        tokio::select! {
            () = until_left => {}
            () = clock.sleep_until(ends_at) => {}
        }
        drop(place);
    };
    shared.spawn_watch(false, Box::pin(stand));
}
