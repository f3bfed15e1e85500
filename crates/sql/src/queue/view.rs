//! Looks at queues, and what is done with what they show.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, Extent, Operation, QueueName, QueueView};
use lockkeeper_session::{Coverage, Failure};

use crate::queue::inner::{Inner, named};
use crate::queue::rows::ticket_of;
use crate::statement::{Argument, Statement};

/// The statement that looks at a queue.
pub(super) fn looking(queue: &QueueName, extent: Extent<'_>) -> Statement {
    let (around, whole) = match extent {
        Extent::Whole => (None, true),
        // What is no contender of ours is not there.
        Extent::Around(place) => (place.and_then(ticket_of), false),
    };
    let [name, part] = named(queue);
    let around = Argument::OptionalId(around.map(lockkeeper_core::Ticket::bits));
    Statement::new("look", vec![name, part, around, Argument::Flag(whole)])
}

impl Inner {
    /// Looks at a queue, now.
    pub(super) fn view(
        self: &Arc<Self>,
        queue: &QueueName,
        extent: Extent<'_>,
    ) -> BoxFuture<Result<QueueView, Failure>> {
        let coverage = Coverage::of(extent);
        let asked_at = self.core.life.clock.now();
        let looking = self.core.life.look(self.run(looking(queue, extent), Operation::View));
        let (inner, queue) = (self.clone(), queue.clone());
        Box::pin(async move {
            let (link, answer) = looking.await?;
            let view = answer.view(link.connection_number())?;
            if let Coverage::One(mine) = &coverage
                && let Some(place) = inner.place_of(&queue, mine)
            {
                place.note(&view);
            }
            inner.settle(&queue, &view, &coverage, asked_at).await;
            Ok(view)
        })
    }

    /// Notes which of our own contenders are gone by a view, and waits until it is known why.
    pub(super) async fn settle(
        self: &Arc<Self>,
        queue: &QueueName,
        view: &QueueView,
        coverage: &Coverage,
        asked_at: BootInstant,
    ) {
        self.note_missing(queue, view, coverage, asked_at);
        let unexplained = self.entries().unexplained(queue);
        for place in unexplained {
            place.bond.explained().await;
        }
    }

    /// Notes which of our own contenders are gone by a view that was asked for at this moment, so that no other caller
    /// of this process is granted their place before their own callers know.
    pub(super) fn note_missing(
        self: &Arc<Self>,
        queue: &QueueName,
        view: &QueueView,
        coverage: &Coverage,
        asked_at: BootInstant,
    ) {
        let missing = self.entries().missing(queue, view, coverage, asked_at);
        for place in missing {
            self.found_gone(&place);
        }
    }
}
