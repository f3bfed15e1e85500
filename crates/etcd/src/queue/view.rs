//! Looks at queues: which ranges show one, who answers, and what they show.

use lockkeeper_core::{ContenderId, Extent, Mode, Operation, Part, QueueName, QueueView};
use lockkeeper_session::{Failure, Link as _};

use crate::layout::{Layout, StoredKey};
use crate::proto::{RangeRequest, RequestOp, ResponseOp, TxnResponse};
use crate::queue::around::KeyPosition;
use crate::queue::state::QueueCore;
use crate::rpc::{prefix_range, range_of, txn};
use crate::session::{EtcdLink, header};

/// How many contenders are read at most where few decide; a queue that has more is read around the place in question.
pub(super) const SHORT_MAX: i64 = 64;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ReadSource {
    Quorum,
    Member,
}

#[derive(Debug)]
pub(super) struct ShownQueue {
    pub(super) view: QueueView,
    /// Whether there are more contenders than were to be shown.
    pub(super) has_more: bool,
    pub(super) count: i64,
}

/// The ranges that show a queue: the queue itself, at most so many of it if this is not 0, and the first key of each
/// queue of the same lock that belongs to another kind of lock. A line is mostly the only queue of its lock, and then
/// one range shows all of that.
pub(super) fn ranges(layout: &Layout, queue: &QueueName, by: ReadSource, limit: i64) -> Vec<RequestOp> {
    let serializable = by == ReadSource::Member;
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

fn elsewhere(layout: &Layout, queue: &QueueName, by: ReadSource) -> impl Iterator<Item = RequestOp> {
    let serializable = by == ReadSource::Member;
    queue.part().opposite().iter().map(move |&part| {
        let first = prefix_range(layout.queue(&queue.with_part(part)));
        RangeRequest { keys_only: true, limit: 1, serializable, ..first }.into()
    })
}

/// Reads the answers to these ranges.
pub(super) fn read(
    layout: &Layout,
    queue: &QueueName,
    link: &EtcdLink,
    answers: &[ResponseOp],
) -> Result<ShownQueue, Failure> {
    let (shown, others) = answers.split_first().ok_or_else(Failure::unexpected)?;
    let shown = range_of(shown)?;
    let contenders: Vec<_> = layout.read_queue(queue, &shown.kvs).iter().map(StoredKey::contender).collect();
    let mut view = QueueView::new(link.connection_number(), contenders);
    layout.mark(queue, &mut view);
    view.elsewhere = match shows_lock(layout, queue) {
        true => layout.first_outside(queue, &shown.kvs),
        false => found_elsewhere(layout, queue, others)?,
    };
    Ok(ShownQueue { view, has_more: shown.more, count: shown.count })
}

fn found_elsewhere(layout: &Layout, queue: &QueueName, answers: &[ResponseOp]) -> Result<Option<Mode>, Failure> {
    let mut found = None;
    for answer in answers {
        let first = range_of(answer)?.kvs.first().and_then(|kv| layout.read(queue, kv)).map(|(_, stored)| stored.mode);
        found = found.or(first);
    }
    Ok(found)
}

impl QueueCore {
    pub(super) async fn view(
        &self,
        link: &EtcdLink,
        queue: &QueueName,
        by: ReadSource,
        extent: Extent<'_>,
    ) -> Result<QueueView, Failure> {
        match extent {
            Extent::Around(place) if self.core.layout.has_segments(queue) => {
                self.view_around(link, queue, by, place).await
            }
            Extent::Around(_) | Extent::Whole => Ok(self.view_at_most(link, queue, by, 0).await?.view),
        }
    }

    /// Looks at the part of a queue that decides for a place, or for one at the tail.
    async fn view_around(
        &self,
        link: &EtcdLink,
        queue: &QueueName,
        mut by: ReadSource,
        place: Option<&ContenderId>,
    ) -> Result<QueueView, Failure> {
        if let Some(spot) = KeyPosition::of(&self.core.layout, place) {
            if spot.may_be_short() {
                let shown = self.view_at_most(link, queue, by, SHORT_MAX).await?;
                if !shown.has_more {
                    return Ok(shown.view.around(place));
                }
                // A member that has answered a look, itself or for a quorum, does not go back behind it.
                by = ReadSource::Member;
            }
            if let Some(view) = self.view_spot(link, queue, by, &spot).await? {
                return Ok(view.around(place));
            }
            by = ReadSource::Member;
        }
        Ok(self.view_at_most(link, queue, by, 0).await?.view.around(place))
    }

    /// Looks at a queue; shows it whole, unless it has more contenders than these, if this is not 0.
    async fn view_at_most(
        &self,
        link: &EtcdLink,
        queue: &QueueName,
        by: ReadSource,
        limit: i64,
    ) -> Result<ShownQueue, Failure> {
        let layout = &self.core.layout;
        let answer = self.ask_by(link, by, |by| ranges(layout, queue, by, limit)).await?;
        read(layout, queue, link, &answer.responses)
    }

    /// Looks at a place in a long queue; `None` if the queue must be looked at whole.
    async fn view_spot(
        &self,
        link: &EtcdLink,
        queue: &QueueName,
        by: ReadSource,
        spot: &KeyPosition,
    ) -> Result<Option<QueueView>, Failure> {
        let layout = &self.core.layout;
        let ranges = |by| {
            let mut ranges = spot.ranges(layout, queue, by == ReadSource::Member);
            ranges.extend(elsewhere(layout, queue, by));
            ranges
        };
        let answer = self.ask_by(link, by, ranges).await?;
        let (around, others) =
            answer.responses.split_at_checked(spot.ranges_count()).ok_or_else(Failure::unexpected)?;
        let elsewhere = found_elsewhere(layout, queue, others)?;
        let Some(mut seen) = spot.read(layout, queue, link.connection_number(), around)? else {
            return Ok(None);
        };
        seen.view.elsewhere = elsewhere;
        self.tails.lock().note_length(queue, i64::try_from(seen.length).is_ok_and(|length| length > SHORT_MAX));
        Ok(Some(seen.view))
    }

    /// Reads ranges. A member tells a change before its own looks show it, by the moment that it takes to write it
    /// down; so one that does not show yet what was told asks the quorum, whose looks wait for that.
    async fn ask_by(
        &self,
        link: &EtcdLink,
        by: ReadSource,
        ranges: impl Fn(ReadSource) -> Vec<RequestOp>,
    ) -> Result<TxnResponse, Failure> {
        let (core, deadline) = (&self.core, self.core.life.deadline());
        if by == ReadSource::Member {
            let request = txn(Vec::new(), ranges(ReadSource::Member), Vec::new());
            let answer = core.send(link, request, Operation::View, deadline).await?;
            let revision = header(&answer)?.revision;
            if self.told(link).is_none_or(|told| told <= revision) {
                return Ok(answer);
            }
        }
        core.ask(link, txn(Vec::new(), ranges(ReadSource::Quorum), Vec::new()), Operation::View, deadline).await
    }
}
