//! Waits for the contender ahead. It is gone for good once the server told so over the connection on which it was seen,
//! or answered there that it is not stored: what is removed never comes back. All else is a reason to look again.

use std::sync::Arc;

use lockkeeper_core::{ConnectionNumber, ContenderId, Departure, Operation, QueueName, Result, Ticket};

use crate::queue::inner::Inner;
use crate::queue::place::Place;
use crate::queue::rows::ticket_of;
use crate::session::{Told, Wake};

/// A wait under way.
pub(super) struct Wait {
    inner: Arc<Inner>,
    queue: QueueName,
    mine: Option<Arc<Place>>,
    awaited: Awaited,
}

/// What is waited for.
enum Awaited {
    /// The departure, over the connection that the contender was seen on.
    Told(Told),
    /// The next connection, since that one is lost.
    NextConnection,
    /// Nothing: no contender here ever had that name.
    Nothing,
}

impl Wait {
    /// Begins to wait, now.
    pub(super) fn begin(
        inner: &Arc<Inner>,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: ConnectionNumber,
    ) -> Self {
        let mine = mine.and_then(|mine| inner.place_of(queue, mine));
        let awaited = match ticket_of(ahead) {
            Some(ahead) => Self::awaited(inner, mine.as_deref(), ahead, seen),
            None => Awaited::Nothing,
        };
        Self { inner: inner.clone(), queue: queue.clone(), mine, awaited }
    }

    fn awaited(inner: &Inner, mine: Option<&Place>, ahead: Ticket, seen: ConnectionNumber) -> Awaited {
        let link = inner.core.present_link().filter(|link| link.connection_number() == seen);
        let Some(link) = link else { return Awaited::NextConnection };
        // An onlooker looks as the next in line does.
        let nearness = mine.map_or(0, |mine| mine.ahead().saturating_sub(1));
        Awaited::Told(inner.core.waits.departure(&link, ahead, nearness))
    }

    pub(super) async fn finish(self) -> Result<Departure> {
        let Self { inner, queue, mine, awaited } = self;
        let removed = async {
            match &mine {
                Some(mine) => mine.bond.removed().await,
                None => std::future::pending().await,
            }
        };
        let departed = async {
            let wake = match awaited {
                Awaited::Told(told) => told.await,
                Awaited::NextConnection => Wake::ConnectionOver,
                Awaited::Nothing => Wake::Departed,
            };
            match wake {
                Wake::Departed => {
                    // A session that is lost says so itself.
                    let _ = inner.core.until_believable().await;
                    Departure::Gone
                }
                Wake::Look => Departure::Recheck,
                Wake::ConnectionOver => next_connection(&inner).await,
            }
        };
        let departure = tokio::select! {
            biased;
            () = removed => Departure::Recheck,
            _ = inner.core.bond().lost() => return Err(inner.over(Operation::Wait, &queue)),
            departure = departed => departure,
        };
        if let Some(mine) = &mine {
            mine.bond.explained().await;
        }
        inner.check(Operation::Wait, &queue)?;
        Ok(departure)
    }
}

/// Waits for the next connection; what was told on it may not be all.
async fn next_connection(inner: &Inner) -> Departure {
    // If none comes any more, the session is lost, and that is told instead.
    if inner.core.next_link().await.is_none() {
        std::future::pending::<()>().await;
    }
    Departure::Recheck
}
