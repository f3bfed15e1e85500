//! The segment of a queue that its next contender joins, what this process knows of that, and how it goes on.
//!
//! The number of the segment at the tail is stored beside the queue, and a join takes effect only if it names the same.
//! So no contender ever joins a segment once another one has joined the next. A process that joins a segment that is
//! full begins the next one; the last to leave a queue that was long has it begin with the first one again.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockkeeper_core::{Operation, QueueName};
use lockkeeper_session::Failure;

use crate::layout::{Layout, MODES};
use crate::proto::{Compare, KeyValue, Response, ResponseOp};
use crate::queue::inner::Inner;
use crate::rpc::{absent, delete, key_range, modified_at, prefix_end, put, txn};
use crate::session::header;

/// How many contenders a segment has before the next one is begun; those that join at the same moment come on top. What
/// is read of a long queue is some of these.
pub(super) const SEGMENT_FULL: i64 = 32;

/// How many queues with more than one segment are remembered: one that was forgotten costs its next join a round trip.
const QUEUES_MAX: usize = 1_024;

/// The segment at the tail of a queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Tail {
    pub(super) segment: u32,
    /// The revision at which that was written; 0 if it never was.
    pub(super) written: i64,
}

impl Tail {
    /// Reads it from the answer to a range of its key.
    pub(super) fn of(answer: &ResponseOp) -> Result<Self, Failure> {
        match &answer.response {
            Some(Response::Range(range)) => range.kvs.first().map_or_else(|| Ok(Self::default()), Self::read),
            _ => Err(Failure::unexpected()),
        }
    }

    fn read(kv: &KeyValue) -> Result<Self, Failure> {
        let segment = str::from_utf8(&kv.value).ok().and_then(|text| text.parse().ok());
        Ok(Self { segment: segment.ok_or_else(Failure::unexpected)?, written: kv.mod_revision })
    }
}

/// What is known of a queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Known {
    pub(super) tail: Tail,
    /// Whether it was too long to be shown whole, when it was looked at last.
    pub(super) is_long: bool,
}

/// What is known of all queues that are, or were, long.
#[derive(Debug, Default)]
pub(super) struct Tails {
    by_queue: BTreeMap<QueueName, Known>,
}

impl Tails {
    pub(super) fn known(&self, queue: &QueueName) -> Known {
        self.by_queue.get(queue).copied().unwrap_or_default()
    }

    pub(super) fn note_tail(&mut self, queue: &QueueName, tail: Tail) {
        self.set(queue, Known { tail, ..self.known(queue) });
    }

    pub(super) fn note_length(&mut self, queue: &QueueName, is_long: bool) {
        self.set(queue, Known { is_long, ..self.known(queue) });
    }

    fn set(&mut self, queue: &QueueName, known: Known) {
        if known == Known::default() {
            self.by_queue.remove(queue);
            return;
        }
        if let Some(present) = self.by_queue.get_mut(queue) {
            *present = known;
            return;
        }
        if self.by_queue.len() >= QUEUES_MAX {
            self.by_queue.clear();
        }
        self.by_queue.insert(queue.clone(), known);
    }
}

impl Inner {
    /// Begins the next segment, in the background, unless another client has done so. If it fails, the next contender
    /// to join begins it. Where contenders stand in it, or behind it, the key of the tail was deleted by hand: they
    /// stand ahead of all that join now, which then stay in one segment until these have left.
    pub(super) fn begin_segment(self: &Arc<Self>, queue: &QueueName, full: Tail) {
        let (inner, queue) = (self.clone(), queue.clone());
        let Some(next) = full.segment.checked_add(1) else {
            return;
        };
        self.core.life.runtime.spawn(async move {
            let key = inner.core.layout.tail(&queue);
            let mut conditions = none_from(&inner.core.layout, &queue, next);
            conditions.push(modified_at(key.clone(), full.written));
            let text = next.to_string().into_bytes();
            let request = txn(conditions, vec![put(key.clone(), text, 0)], vec![key_range(key).into()]);
            let Some(link) = inner.core.life.present_link() else {
                return;
            };
            let asking = inner.core.ask(&link, request, Operation::Value, inner.core.life.deadline());
            let Ok(answer) = asking.await else {
                return;
            };
            let tail = match (answer.succeeded, header(&answer), answer.responses.first()) {
                (true, Ok(header), _) => Ok(Tail { segment: next, written: header.revision }),
                (false, _, Some(present)) => Tail::of(present),
                _ => Err(Failure::unexpected()),
            };
            if let Ok(tail) = tail {
                inner.tails.lock().note_tail(&queue, tail);
            }
        });
    }

    /// Begins with the first segment again, in the background, if the queue is empty.
    pub(super) fn begin_anew(self: &Arc<Self>, queue: &QueueName) {
        let (inner, queue) = (self.clone(), queue.clone());
        self.core.life.runtime.spawn(async move {
            let key = inner.core.layout.tail(&queue);
            let empty = none_below(inner.core.layout.queue(&queue));
            let Some(link) = inner.core.life.present_link() else {
                return;
            };
            let request = txn(vec![empty], vec![delete(key)], Vec::new());
            let answer = inner.core.ask(&link, request, Operation::Value, inner.core.life.deadline()).await;
            if answer.is_ok_and(|answer| answer.succeeded) {
                inner.tails.lock().note_tail(&queue, Tail::default());
            }
        });
    }
}

/// There is no key that begins with this prefix.
fn none_below(prefix: Vec<u8>) -> Compare {
    let range_end = prefix_end(&prefix);
    none_in((prefix, range_end))
}

/// There is no contender in this segment of a queue, or behind it.
fn none_from(layout: &Layout, queue: &QueueName, segment: u32) -> Vec<Compare> {
    MODES.into_iter().map(|mode| none_in(layout.segments(queue, mode, segment..=u32::MAX))).collect()
}

/// There is no key in a range: of no key at all each condition on a number is true that is true of 0.
fn none_in((key, range_end): (Vec<u8>, Vec<u8>)) -> Compare {
    Compare { range_end, ..absent(key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(number: usize) -> QueueName {
        QueueName::new(&number.to_string()).unwrap()
    }

    #[test]
    fn only_queues_that_are_or_were_long_are_remembered_and_not_too_many() {
        let mut tails = Tails::default();
        tails.note_length(&queue(0), false);
        assert!(tails.by_queue.is_empty());
        for number in 0..2 * QUEUES_MAX {
            tails.note_tail(&queue(number), Tail { segment: 1, written: 7 });
            tails.note_length(&queue(number), true);
        }
        assert!(tails.by_queue.len() <= QUEUES_MAX);
        let last = queue(2 * QUEUES_MAX - 1);
        assert_eq!(tails.known(&last), Known { tail: Tail { segment: 1, written: 7 }, is_long: true });
        tails.note_length(&last, false);
        tails.note_tail(&last, Tail::default());
        assert_eq!(tails.known(&last), Known::default());
        assert!(!tails.by_queue.contains_key(&last));
    }

    #[test]
    fn a_tail_that_was_never_written_is_the_first_segment_and_a_strange_one_is_refused() {
        let answer = |kvs| ResponseOp {
            response: Some(Response::Range(crate::proto::RangeResponse { kvs, ..Default::default() })),
        };
        let kv = |value: &str| KeyValue { value: value.into(), mod_revision: 9, ..KeyValue::default() };
        assert_eq!(Tail::of(&answer(vec![])).unwrap(), Tail::default());
        assert_eq!(Tail::of(&answer(vec![kv("12")])).unwrap(), Tail { segment: 12, written: 9 });
        assert!(Tail::of(&answer(vec![kv("-1")])).is_err() && Tail::of(&ResponseOp::default()).is_err());
    }
}
