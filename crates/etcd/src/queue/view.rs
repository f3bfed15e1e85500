//! Looks at queues: which ranges show one, who answers, and what is done with what they show.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ContenderId, Extent, Freshness, Mode, Operation, Part, QueueName, QueueView, Result};
use lockkeeper_session::{Failure, Link as _};

use crate::layout::{Layout, Stored};
use crate::proto::{RangeRequest, RequestOp, Response, ResponseOp, TxnRequest};
use crate::queue::around::{Coverage, Spot};
use crate::queue::inner::{Inner, Look};
use crate::rpc::{prefix_range, txn};
use crate::session::Link;

/// How many contenders are read at most where few decide; a queue that has more is read around the place in question.
pub(super) const SHORT_MAX: i64 = 64;

/// Who answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum By {
    Quorum,
    Member,
}

/// What the ranges of a queue show.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) view: QueueView,
    /// Whether there are more contenders than were to be shown.
    pub(super) has_more: bool,
    /// How many there are.
    pub(super) count: i64,
}

/// The ranges that show a queue: the queue itself, at most so many of it if this is not 0, and the first key of each
/// queue of the same lock that belongs to another kind of lock. A line is mostly the only queue of its lock, and then
/// one range shows all of that.
pub(super) fn ranges(layout: &Layout, queue: &QueueName, by: By, limit: i64) -> Vec<RequestOp> {
    let serializable = by == By::Member;
    if shows_lock(layout, queue) {
        return vec![RangeRequest { serializable, limit, ..prefix_range(layout.lock(queue)) }.into()];
    }
    let shown = RangeRequest { serializable, limit, ..prefix_range(layout.queue(queue)) };
    let mut ranges = vec![RequestOp::from(shown)];
    ranges.extend(elsewhere(layout, queue, by));
    ranges
}

/// Whether a queue is shown with all others of its lock. Those of other kinds come before and behind it among the keys,
/// so that it is not shown at all if these are too many; but then a contender of another kind is.
fn shows_lock(layout: &Layout, queue: &QueueName) -> bool {
    queue.part() == Part::Line && layout.has_segments(queue)
}

fn elsewhere(layout: &Layout, queue: &QueueName, by: By) -> impl Iterator<Item = RequestOp> {
    let serializable = by == By::Member;
    queue.part().opposite().iter().map(move |&part| {
        let first = prefix_range(layout.queue(&queue.with_part(part)));
        RangeRequest { keys_only: true, limit: 1, serializable, ..first }.into()
    })
}

/// Reads the answers to these ranges.
pub(super) fn read(layout: &Layout, queue: &QueueName, link: &Link, answers: &[ResponseOp]) -> Result<Shown, Failure> {
    let (shown, others) = answers.split_first().ok_or_else(Failure::unexpected)?;
    let Some(Response::Range(shown)) = &shown.response else {
        return Err(Failure::unexpected());
    };
    let contenders: Vec<_> = layout.read_queue(queue, &shown.kvs).iter().map(Stored::contender).collect();
    let mut view = QueueView::new(link.connection_number(), contenders);
    layout.mark(queue, &mut view);
    view.elsewhere = match shows_lock(layout, queue) {
        true => layout.first_outside(queue, &shown.kvs),
        false => found_elsewhere(layout, queue, others)?,
    };
    Ok(Shown { view, has_more: shown.more, count: shown.count })
}

fn found_elsewhere(layout: &Layout, queue: &QueueName, answers: &[ResponseOp]) -> Result<Option<Mode>, Failure> {
    let mut found = None;
    for answer in answers {
        let Some(Response::Range(others)) = &answer.response else {
            return Err(Failure::unexpected());
        };
        let first = others.kvs.first().and_then(|kv| layout.read(queue, kv)).map(|(_, stored)| stored.mode);
        found = found.or(first);
    }
    Ok(found)
}

impl Inner {
    /// Looks at a queue.
    pub(super) async fn view(
        self: &Arc<Self>,
        queue: &QueueName,
        operation: Operation,
        freshness: Freshness,
        extent: Extent<'_>,
    ) -> Result<(Arc<Link>, QueueView), Failure> {
        let by = |link: &Link| match freshness {
            Freshness::AfterDeparture if self.has_told(link) => By::Member,
            Freshness::AfterDeparture | Freshness::Latest => By::Quorum,
        };
        match extent {
            Extent::Around(place) if self.core.layout.has_segments(queue) => {
                self.view_around(queue, operation, place, by).await
            }
            Extent::Around(_) | Extent::Whole => {
                let (link, shown) = self.view_at_most(queue, operation, 0, by).await?;
                Ok((link, shown.view))
            }
        }
    }

    /// Looks at what decides for a place, or for one at the tail.
    pub(super) async fn view_around(
        self: &Arc<Self>,
        queue: &QueueName,
        operation: Operation,
        place: Option<&ContenderId>,
        by: impl Fn(&Link) -> By + Send + Sync,
    ) -> Result<(Arc<Link>, QueueView), Failure> {
        let mut seen_on = None;
        // A member that has answered a look, itself or for a quorum, does not go back behind it.
        let by = |seen_on: &Option<Arc<Link>>, link: &Link| match seen_on {
            Some(seen_on) if seen_on.number == link.number => By::Member,
            _ => by(link),
        };
        if let Some(spot) = Spot::of(&self.core.layout, place) {
            if spot.may_be_short() {
                let (link, shown) = self.view_at_most(queue, operation, SHORT_MAX, |link| by(&seen_on, link)).await?;
                if !shown.has_more {
                    return Ok((link, shown.view.around(place)));
                }
                seen_on = Some(link);
            }
            let (link, seen) = self.view_spot(queue, operation, &spot, |link| by(&seen_on, link)).await?;
            if let Some(view) = seen {
                return Ok((link, view.around(place)));
            }
            seen_on = Some(link);
        }
        let (link, shown) = self.view_at_most(queue, operation, 0, |link| by(&seen_on, link)).await?;
        Ok((link, shown.view.around(place)))
    }

    /// Looks at a queue; shows it whole, unless it has more contenders than these, if this is not 0.
    async fn view_at_most(
        self: &Arc<Self>,
        queue: &QueueName,
        operation: Operation,
        limit: i64,
        by: impl Fn(&Link) -> By + Send + Sync,
    ) -> Result<(Arc<Link>, Shown), Failure> {
        let layout = &self.core.layout;
        let asked_at = self.core.life.clock.now();
        let looked = self.look(operation, |link| {
            let by = by(link);
            look_by(by, ranges(layout, queue, by, limit))
        });
        let (link, answer) = looked.await?;
        let shown = read(layout, queue, &link, &answer.responses)?;
        if !shown.has_more {
            self.settle(queue, &shown.view, &Coverage::ALL, asked_at).await;
        }
        Ok((link, shown))
    }

    /// Looks at a place in a long queue; `None` if the queue must be looked at whole.
    async fn view_spot(
        self: &Arc<Self>,
        queue: &QueueName,
        operation: Operation,
        spot: &Spot,
        by: impl Fn(&Link) -> By + Send + Sync,
    ) -> Result<(Arc<Link>, Option<QueueView>), Failure> {
        let layout = &self.core.layout;
        let asked_at = self.core.life.clock.now();
        let looked = self.look(operation, |link| {
            let by = by(link);
            let mut ranges = spot.ranges(layout, queue, by == By::Member);
            ranges.extend(elsewhere(layout, queue, by));
            look_by(by, ranges)
        });
        let (link, answer) = looked.await?;
        let (around, others) =
            answer.responses.split_at_checked(spot.ranges_count()).ok_or_else(Failure::unexpected)?;
        let elsewhere = found_elsewhere(layout, queue, others)?;
        let Some(mut seen) = spot.read(layout, queue, link.connection_number(), around)? else {
            return Ok((link, None));
        };
        seen.view.elsewhere = elsewhere;
        self.settle(queue, &seen.view, &seen.coverage, asked_at).await;
        self.tails().note_length(queue, i64::try_from(seen.length).is_ok_and(|length| length > SHORT_MAX));
        Ok((link, Some(seen.view)))
    }

    /// Looks at a queue as the member behind this connection has it.
    pub(super) async fn view_of_member(self: &Arc<Self>, queue: &QueueName, link: &Link) -> Result<QueueView, Failure> {
        let layout = &self.core.layout;
        let asked_at = self.core.life.clock.now();
        let request = txn(Vec::new(), ranges(layout, queue, By::Member, 0), Vec::new());
        let answer = self.core.send(link, request, Operation::View, self.core.life.deadline()).await?;
        let view = read(layout, queue, link, &answer.responses)?.view;
        self.settle(queue, &view, &Coverage::ALL, asked_at).await;
        Ok(view)
    }

    /// Notes which of our own contenders are gone by a view, and waits until it is known why.
    async fn settle(self: &Arc<Self>, queue: &QueueName, view: &QueueView, coverage: &Coverage, asked_at: BootInstant) {
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

fn look_by(by: By, ranges: Vec<RequestOp>) -> Look<TxnRequest> {
    let request = txn(Vec::new(), ranges, Vec::new());
    match by {
        By::Member => Look::Member(request),
        By::Quorum => Look::Quorum(request),
    }
}
