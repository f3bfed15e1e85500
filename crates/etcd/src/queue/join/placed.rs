//! Entries that are stored: their standings are handed out once they may be believed, with what the queue shows.

use std::sync::Arc;

use lockkeeper_core::{Enqueued, Error, Operation, QueueName, QueueView, Result};

use super::withdrawn;
use crate::queue::inner::Inner;
use crate::queue::place::Place;
use crate::queue::standing::PlaceStanding;
use crate::queue::view::By;
use crate::session::Link;

/// Entries of one call that are stored.
pub(super) struct Placed {
    pub(super) queue: QueueName,
    /// The queue, if it is short or must be known whole.
    pub(super) view: Option<QueueView>,
    /// The number of the connection over which the join was answered.
    pub(super) link: u64,
    pub(super) places: Vec<Arc<Place>>,
}

impl Placed {
    /// Hands out the standings of places once they may be believed, with what the queue shows.
    pub(super) async fn stand(self, inner: Arc<Inner>) -> Result<Vec<Enqueued>> {
        let Self { queue, view, link, places } = self;
        if inner.core.life.until_believable().await.is_err() {
            return Err(inner.over(Operation::Join, &queue));
        }
        let view = match view {
            Some(view) => view,
            None => around(&inner, &queue, link, &places).await?,
        };
        let mut enqueued = Vec::with_capacity(places.len());
        for place in places {
            if !inner.entries().stand(place.ticket) {
                return Err(withdrawn(&queue));
            }
            let (id, token) = (place.id.clone(), place.token);
            let standing = Arc::new(PlaceStanding::new(inner.clone(), place));
            enqueued.push(Enqueued { id, token, view: view.clone(), standing });
        }
        Ok(enqueued)
    }
}

/// Looks at what is around the one place that was taken in a long queue.
async fn around(inner: &Arc<Inner>, queue: &QueueName, link: u64, places: &[Arc<Place>]) -> Result<QueueView> {
    let place = places.first().map(|place| &place.id);
    // The member that has answered the join has it.
    let by = |present: &Link| if present.number == link { By::Member } else { By::Quorum };
    match inner.view_around(queue, Operation::View, place, by).await {
        Ok((_, view)) => Ok(view),
        Err(failure) => {
            let error = inner.fail(failure, Operation::Join, false, queue);
            // The place is taken.
            Err(match error.is_transient() {
                true => Error::unknown(error.kind(), Operation::Join, error.to_string()).at(queue),
                false => error,
            })
        }
    }
}
