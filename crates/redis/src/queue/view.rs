//! Looks at queues, and what is done with what they show.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, ConnectionNumber, Extent, Operation, QueueName, QueueView};
use lockkeeper_session::{Coverage, Failure};
use redis::Value;

use crate::answers::{list, number, text};
use crate::layout::{Member, mode_of, part_letter};
use crate::queue::inner::{Inner, Looked, arguments};
use crate::queue::plain::Foreigner;
use crate::script::Script;
use crate::session::Make;

/// Reads a view as the scripts answer it. What is no contender is passed over.
pub(super) fn read(connection: ConnectionNumber, answer: Value) -> Result<QueueView, Failure> {
    read_with_foreigner(connection, answer).map(|(view, _)| view)
}

/// Reads a view, and of another client that it shows when its key ends.
pub(super) fn read_with_foreigner(
    connection: ConnectionNumber,
    answer: Value,
) -> Result<(QueueView, Option<Foreigner>), Failure> {
    let mut answer = list(answer)?.into_iter();
    let mut next = || answer.next().ok_or_else(Failure::unexpected);
    let (omitted, elsewhere) = (number(&next()?)?, text(next()?)?);
    let (mut members, mut foreigner) = (Vec::with_capacity(answer.len()), None);
    for shown in answer {
        let shown = text(shown)?;
        members.extend(Member::parse(&shown));
        foreigner = foreigner.or_else(|| Foreigner::read(&shown));
    }
    members.sort_unstable_by_key(|member| (member.place(), member.ticket));
    // It holds what our first contender waits for.
    let foreign = foreigner.iter().map(Foreigner::contender);
    let contenders: Vec<_> = foreign.chain(members.iter().map(Member::contender)).collect();
    let mut view = QueueView::new(connection, contenders);
    view.omitted = usize::try_from(omitted).map_err(|_| Failure::unexpected())?;
    view.elsewhere = mode_of(&elsewhere);
    Ok((view, foreigner))
}

impl Inner {
    /// Makes a look at a queue.
    pub(super) fn looking(&self, queue: &QueueName, extent: Extent<'_>, operation: Operation) -> Make<Looked<Value>> {
        let (place, extent) = match extent {
            Extent::Whole => ("", "whole"),
            // Only contenders of ours have places in the order.
            Extent::Around(Some(place)) if Member::of(place).is_some() => (place.as_str(), "around"),
            Extent::Around(_) => ("", "around"),
        };
        let arguments = arguments([part_letter(queue.part()), &queue.encoded(), place, extent]);
        self.run(Script::Look, arguments, operation)
    }

    /// Looks at a queue, now.
    pub(super) fn view(
        self: &Arc<Self>,
        queue: &QueueName,
        operation: Operation,
        extent: Extent<'_>,
    ) -> BoxFuture<Result<QueueView, Failure>> {
        let coverage = Coverage::of(extent);
        let asked_at = self.core.life.clock.now();
        let looking = self.core.life.look(self.looking(queue, extent, operation));
        let (inner, queue) = (self.clone(), queue.clone());
        let mine = match extent {
            Extent::Around(place) => place.cloned(),
            Extent::Whole => None,
        };
        Box::pin(async move {
            let (link, answer) = looking.await?;
            let view = read(link.connection_number(), answer)?;
            if let Some(mine) = mine {
                inner.note_turn(&queue, &view, &mine);
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
