//! The segment of a queue that its next contender joins, and what this process knows of it.
//!
//! The number of the segment at the tail is stored beside the queue, and a join takes effect only if it names the same.
//! So no contender ever joins a segment once another one has joined the next. A process that joins a segment that is
//! full begins the next one; the last to leave a queue that was long has it begin with the first one again.

use std::collections::BTreeMap;

use lockkeeper_core::QueueName;
use lockkeeper_session::Failure;

use crate::proto::{KeyValue, ResponseOp};
use crate::rpc::range_of;

/// How many contenders a segment has before the next one is begun; those that join at the same moment come on top. What
/// is read of a long queue is some of these.
pub(super) const SEGMENT_FULL: i64 = 32;

/// How many queues with several segments are remembered: a forgotten one costs its next join a round trip.
const QUEUES_MAX: usize = 1_024;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Tail {
    pub(super) segment: u32,
    /// The revision at which that was written; 0 if it never was.
    pub(super) written: i64,
}

impl Tail {
    /// Reads it from the answer to a range of its key.
    pub(super) fn of(answer: &ResponseOp) -> Result<Self, Failure> {
        range_of(answer)?.kvs.first().map_or_else(|| Ok(Self::default()), Self::read)
    }

    fn read(kv: &KeyValue) -> Result<Self, Failure> {
        let segment = str::from_utf8(&kv.value).ok().and_then(|text| text.parse().ok());
        Ok(Self { segment: segment.ok_or_else(Failure::unexpected)?, written: kv.mod_revision })
    }
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct KnownTail {
    pub(super) tail: Tail,
    /// Whether it was too long to be shown whole, when it was looked at last.
    pub(super) is_long: bool,
}

/// The known tails of all queues that are, or were, long.
#[derive(Debug, Default)]
pub(super) struct Tails {
    by_queue: BTreeMap<QueueName, KnownTail>,
}

impl Tails {
    pub(super) fn known(&self, queue: &QueueName) -> KnownTail {
        self.by_queue.get(queue).copied().unwrap_or_default()
    }

    pub(super) fn note_tail(&mut self, queue: &QueueName, tail: Tail) {
        self.set(queue, KnownTail { tail, ..self.known(queue) });
    }

    pub(super) fn note_length(&mut self, queue: &QueueName, is_long: bool) {
        self.set(queue, KnownTail { is_long, ..self.known(queue) });
    }

    fn set(&mut self, queue: &QueueName, known: KnownTail) {
        if known == KnownTail::default() {
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
        assert_eq!(tails.known(&last), KnownTail { tail: Tail { segment: 1, written: 7 }, is_long: true });
        tails.note_length(&last, false);
        tails.note_tail(&last, Tail::default());
        assert_eq!(tails.known(&last), KnownTail::default());
        assert!(!tails.by_queue.contains_key(&last));
    }

    #[test]
    fn a_tail_that_was_never_written_is_the_first_segment_and_a_strange_one_is_refused() {
        let answer = |kvs| ResponseOp {
            response: Some(crate::proto::OpResponse::Range(crate::proto::RangeResponse { kvs, ..Default::default() })),
        };
        let kv = |value: &str| KeyValue { value: value.into(), mod_revision: 9, ..KeyValue::default() };
        assert_eq!(Tail::of(&answer(vec![])).unwrap(), Tail::default());
        assert_eq!(Tail::of(&answer(vec![kv("12")])).unwrap(), Tail { segment: 12, written: 9 });
        assert!(Tail::of(&answer(vec![kv("-1")])).is_err() && Tail::of(&ResponseOp::default()).is_err());
    }
}
