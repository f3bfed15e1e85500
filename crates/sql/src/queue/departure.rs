//! Waits for the contender ahead. It is gone for good once the server told so over the connection on which it was seen,
//! or answered there that it is not stored: what is removed never comes back. All else is a reason to look again.

use std::sync::Arc;

use lockkeeper_core::{ConnectionNumber, ContenderId, Departure, Extent, Operation, QueueName, Ticket};
use lockkeeper_session::Failure;

use crate::queue::inner::Inner;
use crate::queue::place::Place;
use crate::queue::rows::{Answer, ticket_of};
use crate::queue::view::looking;
use crate::session::{Link, Told, Wake};

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
    Over(Waiting, Told),
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

    fn awaited(inner: &Arc<Inner>, mine: Option<&Place>, ahead: Ticket, seen: ConnectionNumber) -> Awaited {
        let link = inner.core.life.present_link().filter(|link| link.connection_number() == seen);
        let Some(link) = link else { return Awaited::NextConnection };
        let waiting = Waiting { inner: inner.clone(), link, ahead };
        let told = waiting.begin(mine);
        Awaited::Over(waiting, told)
    }

    pub(super) async fn finish(self) -> lockkeeper_core::Result<Departure> {
        let Self { inner, queue, mine, awaited } = self;
        let removed = async {
            match &mine {
                Some(mine) => mine.bond.removed().await,
                None => std::future::pending().await,
            }
        };
        let departed = async {
            let is_gone = match awaited {
                Awaited::Over(waiting, told) => waiting.until_gone(told, mine.as_deref()).await,
                Awaited::NextConnection => false,
                Awaited::Nothing => true,
            };
            if !is_gone {
                return next_connection(&inner).await;
            }
            // A session that is lost says so itself.
            let _ = inner.core.life.until_believable().await;
            Departure::Gone
        };
        let departure = tokio::select! {
            biased;
            () = removed => Departure::Recheck,
            _ = inner.core.life.bond().lost() => return Err(inner.over(Operation::Wait, &queue)),
            departure = departed => departure,
        };
        if let Some(mine) = &mine {
            mine.bond.explained().await;
        }
        inner.check(Operation::Wait, &queue)?;
        Ok(departure)
    }
}

/// A wait over one connection.
struct Waiting {
    inner: Arc<Inner>,
    link: Arc<Link>,
    ahead: Ticket,
}

impl Waiting {
    fn begin(&self, mine: Option<&Place>) -> Told {
        // An onlooker looks as the next in line does.
        let nearness = mine.map_or(0, |mine| mine.ahead().saturating_sub(1));
        let line = mine.map(|mine| (mine.queue.clone(), mine.token));
        self.inner.core.waits.departure(&self.link, self.ahead, nearness, line)
    }

    /// Waits until the contender is gone; `false` if the connection is over before.
    async fn until_gone(&self, mut told: Told, mine: Option<&Place>) -> bool {
        loop {
            match told.await {
                Wake::Departed => return true,
                Wake::ConnectionOver => return false,
                Wake::Look => {}
            }
            if let Some(mine) = mine
                && let Err(failure) = self.find_place(mine).await
            {
                self.inner.core.life.pause_after(&self.link, &failure).await;
            }
            told = self.begin(mine);
        }
    }

    /// Finds out how near our own contender is to its turn.
    async fn find_place(&self, mine: &Place) -> Result<(), Failure> {
        let statement = looking(&mine.queue, Extent::Around(Some(&mine.id)));
        let rows = self.inner.core.ask(&self.link, statement, Operation::Wait).await?;
        mine.note(&Answer::read_ok(rows)?.view(self.link.connection_number())?);
        Ok(())
    }
}

/// Waits for the next connection; what was told on it may not be all.
async fn next_connection(inner: &Inner) -> Departure {
    // If none comes any more, the session is lost, and that is told instead.
    if inner.core.life.next_link().await.is_none() {
        std::future::pending::<()>().await;
    }
    Departure::Recheck
}
