//! The part of a long queue that decides for one place: which ranges show it, and what they show. Pure.
//!
//! A range is shown in the order of its keys, and so by segments. Of each mode, three ranges are read: the segment of
//! the place and the one ahead of it, whole; the first few of all up to there, with their number; and one behind. If
//! these do not show the first contender and the two nearest of each mode ahead, the queue must be read whole.

use lockkeeper_core::{ConnectionNumber, ContenderId, QueueName, QueueView};
use lockkeeper_session::Failure;

use crate::layout::{Layout, MODES, QueuePosition, Segments, StoredKey};
use crate::proto::{RangeRequest, RequestOp, ResponseOp};
use crate::queue::tail::SEGMENT_FULL;
use crate::rpc::range_of;

/// How many of each mode are read from the head: a segment, and those that joined it at the same moment.
const HEAD_MAX: i64 = 2 * SEGMENT_FULL;

/// How many of each mode ahead decide.
const NEAREST: usize = 2;

/// A place in a queue: that of a contender, or the one at the tail.
#[derive(Clone, Debug)]
pub(super) struct KeyPosition {
    /// The contender, and the segment in which it stands.
    place: Option<(ContenderId, u32)>,
}

#[derive(Debug)]
pub(super) struct PlaceView {
    /// All that was read, which is more than decides.
    pub(super) view: QueueView,
    /// How many contenders stand up to the end of the place's segment.
    pub(super) length: usize,
}

#[derive(Debug)]
struct OfMode {
    near: Vec<StoredKey>,
    head: Vec<StoredKey>,
    /// How many there are from the head to the end of the place's segment.
    count: usize,
    behind: Option<StoredKey>,
}

impl KeyPosition {
    /// Finds where a contender stands by its name; `None` if it has a strange one.
    pub(super) fn of(layout: &Layout, place: Option<&ContenderId>) -> Option<Self> {
        let place = match place {
            Some(id) => Some((id.clone(), layout.name(id)?.segment)),
            None => None,
        };
        Some(Self { place })
    }

    /// Whether the length of the queue is unknown.
    pub(super) fn may_be_short(&self) -> bool {
        self.place.as_ref().is_none_or(|(_, segment)| *segment == 0)
    }

    fn near(&self) -> Option<Segments> {
        self.place.as_ref().map(|&(_, segment)| segment.saturating_sub(1)..=segment)
    }

    /// The ranges that decide for it.
    pub(super) fn ranges(&self, layout: &Layout, queue: &QueueName, serializable: bool) -> Vec<RequestOp> {
        let range = |mode, segments, limit| {
            let (key, range_end) = layout.segments(queue, mode, segments);
            let range = RangeRequest { key, range_end, limit, serializable, ..RangeRequest::default() };
            RequestOp::from(range)
        };
        let of_mode = |mode| match self.near() {
            None => vec![range(mode, 0..=u32::MAX, HEAD_MAX)],
            Some(near) => {
                let (end, behind) = (*near.end(), near.end().saturating_add(1)..=u32::MAX);
                vec![range(mode, near, 0), range(mode, 0..=end, HEAD_MAX), range(mode, behind, 1)]
            }
        };
        MODES.into_iter().flat_map(of_mode).collect()
    }

    pub(super) fn ranges_count(&self) -> usize {
        if self.place.is_some() { 3 * MODES.len() } else { MODES.len() }
    }

    /// Reads the answers to these ranges; `None` if they do not show enough.
    pub(super) fn read(
        &self,
        layout: &Layout,
        queue: &QueueName,
        connection: ConnectionNumber,
        answers: &[ResponseOp],
    ) -> Result<Option<PlaceView>, Failure> {
        let stored = |answer: &ResponseOp| {
            let range = range_of(answer)?;
            let count = usize::try_from(range.count).map_err(|_| Failure::unexpected())?;
            Ok::<_, Failure>((layout.read_keys(queue, &range.kvs), count))
        };
        let mut modes = Vec::with_capacity(MODES.len());
        for answers in answers.chunks(self.ranges_count() / MODES.len()) {
            let (head, near, behind) = match answers {
                [head] => (head, None, None),
                [near, head, behind] => (head, Some(near), Some(behind)),
                _ => return Err(Failure::unexpected()),
            };
            let near = near.map(stored).transpose()?.map_or_else(Vec::new, |(near, _)| near);
            let behind = behind.map(stored).transpose()?.and_then(|(mut behind, _)| behind.pop());
            let (head, count) = stored(head)?;
            modes.push(OfMode { near, head, count, behind });
        }
        if modes.len() < MODES.len() {
            return Err(Failure::unexpected());
        }
        Ok(self.show(connection, modes))
    }

    fn show(&self, connection: ConnectionNumber, modes: Vec<OfMode>) -> Option<PlaceView> {
        let id = self.place.as_ref().map(|(id, _)| id);
        let mut near = modes.iter().flat_map(|of_mode| &of_mode.near);
        let position = id.and_then(|id| near.find(|stored| stored.id == *id)).map(|stored| stored.position);
        let is_enough =
            |of_mode: &OfMode| of_mode.shows_first(self.near()) && of_mode.shows_nearest(self.near(), position);
        if !are_in_order(&modes) || !modes.iter().all(is_enough) {
            return None;
        }
        let length = modes.iter().map(|of_mode| of_mode.count).sum::<usize>();
        // All of these stand in the place's own segment.
        let is_behind = |stored: &&StoredKey| position.is_some_and(|position| stored.position >= position);
        let behind = modes.iter().flat_map(|of_mode| &of_mode.near).filter(is_behind).count();
        let mut shown: Vec<_> = modes.into_iter().flat_map(OfMode::into_shown).collect();
        shown.sort_by(|one, other| (one.position, &one.id).cmp(&(other.position, &other.id)));
        shown.dedup_by(|one, other| one.id == other.id);
        let ahead = match position {
            Some(position) => shown.iter().filter(|stored| stored.position < position).count(),
            None => shown.len(),
        };
        let mut view = QueueView::new(connection, shown.iter().map(StoredKey::contender).collect::<Vec<_>>());
        view.omitted = length.saturating_sub(behind).saturating_sub(ahead);
        Some(PlaceView { view, length })
    }
}

impl OfMode {
    /// Whether all from the head to the end of the place's segment were read.
    fn is_head_whole(&self) -> bool {
        self.head.len() == self.count
    }

    /// Whether the first one is among those that were read. The segments come in their order, but no more than that.
    fn shows_first(&self, near: Option<Segments>) -> bool {
        let (Some(first), Some(last)) = (self.head.first(), self.head.last()) else {
            return true;
        };
        let (first, last) = (first.segment, last.segment);
        self.is_head_whole() || first < last || near.is_some_and(|near| near.contains(&first))
    }

    /// Whether the nearest ones ahead are among those that were read.
    fn shows_nearest(&self, near: Option<Segments>, position: Option<QueuePosition>) -> bool {
        let (Some(near), Some(position)) = (near, position) else {
            // Nothing is near the tail alone; and a contender that is gone waits for none.
            return true;
        };
        let ahead = self.near.iter().filter(|stored| stored.position < position).count();
        let first = self.head.first().map(|stored| stored.segment);
        self.is_head_whole() || ahead >= NEAREST || first.is_none_or(|first| near.contains(&first))
    }

    fn shown(&self) -> impl Iterator<Item = &StoredKey> {
        self.near.iter().chain(&self.head).chain(&self.behind)
    }

    fn into_shown(self) -> impl Iterator<Item = StoredKey> {
        self.near.into_iter().chain(self.head).chain(self.behind)
    }
}

/// Whether those of later segments stand behind, as they do unless the key that says which is the last was deleted by
/// hand: then nothing follows from a segment.
fn are_in_order(modes: &[OfMode]) -> bool {
    let shown = modes.iter().flat_map(OfMode::shown);
    let mut places: Vec<_> = shown.map(|stored| (stored.segment, stored.position)).collect();
    places.sort_unstable();
    places.is_sorted_by_key(|&(_, position)| position)
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::Mode;
    use proptest::prelude::*;

    use super::*;
    use crate::layout::{KeyNaming, Name};
    use crate::proto::{KeyValue, OpRequest, OpResponse, RangeResponse};

    /// Answers ranges as a server would that holds these keys.
    fn answers(ranges: Vec<RequestOp>, kvs: &[KeyValue]) -> Vec<ResponseOp> {
        let mut kvs = kvs.to_vec();
        kvs.sort_by(|one, other| one.key.cmp(&other.key));
        let answer = |operation: RequestOp| {
            let Some(OpRequest::Range(asked)) = operation.request else {
                panic!("{operation:?} is no range");
            };
            let is_in = |kv: &&KeyValue| asked.key <= kv.key && kv.key < asked.range_end;
            let found: Vec<_> = kvs.iter().filter(is_in).cloned().collect();
            let count = i64::try_from(found.len()).unwrap();
            let shown = if asked.limit == 0 { found.len() } else { usize::try_from(asked.limit).unwrap() };
            let kvs = found.into_iter().take(shown).collect();
            let range = RangeResponse { kvs, count, ..RangeResponse::default() };
            ResponseOp { response: Some(OpResponse::Range(range)) }
        };
        ranges.into_iter().map(answer).collect()
    }

    fn queue() -> QueueName {
        QueueName::new("door").unwrap()
    }

    /// The keys of contenders of these modes that joined one after the other, a new segment after every so many.
    fn keys(layout: &Layout, modes: &[Mode], in_segment: usize) -> Vec<KeyValue> {
        let key = |(at, &mode): (usize, &Mode)| {
            let segment = u32::try_from(at / in_segment).unwrap();
            // They come in no order of their keys.
            let lease = i64::try_from(at).unwrap().wrapping_mul(0x1e37_79b9_7f4a_7c15);
            let name = Name { mode, segment, lease, slot: 0, number: 0, beside: None };
            let create_revision = 10 + i64::try_from(at).unwrap();
            KeyValue { key: layout.key(&queue(), &name), create_revision, ..KeyValue::default() }
        };
        modes.iter().enumerate().map(key).collect()
    }

    fn whole(layout: &Layout, kvs: &[KeyValue]) -> QueueView {
        let contenders: Vec<_> = layout.read_queue(&queue(), kvs).iter().map(StoredKey::contender).collect();
        QueueView::new(ConnectionNumber(1), contenders)
    }

    fn see(layout: &Layout, place: Option<&ContenderId>, kvs: &[KeyValue]) -> Option<PlaceView> {
        let spot = KeyPosition::of(layout, place).unwrap();
        let ranges = spot.ranges(layout, &queue(), true);
        assert_eq!(ranges.len(), spot.ranges_count());
        spot.read(layout, &queue(), ConnectionNumber(1), &answers(ranges, kvs)).unwrap()
    }

    fn ids(view: &QueueView) -> Vec<&str> {
        view.contenders.iter().map(|contender| contender.id.as_str()).collect()
    }

    fn some_mode() -> impl Strategy<Value = Mode> {
        prop_oneof![8 => Just(Mode::Mutex), 4 => Just(Mode::Read), 2 => Just(Mode::Write), 1 => Just(Mode::Candidate)]
    }

    proptest! {
        #[test]
        fn what_is_read_around_a_place_is_what_the_whole_queue_shows_around_it(
            modes in prop::collection::vec(some_mode(), 1..400), in_segment in 20_usize..60, place: prop::sample::Index,
            left in prop::collection::vec(any::<prop::sample::Index>(), 0..100),
        ) {
            let layout = Layout::new("/x", KeyNaming::Ours);
            let mut kvs = keys(&layout, &modes, in_segment);
            let me = whole(&layout, &kvs).contenders[place.index(kvs.len())].id.clone();
            for left in left {
                let at = left.index(kvs.len());
                if kvs[at].key != layout.key(&queue(), &layout.name(&me).unwrap()) {
                    kvs.remove(at);
                }
            }
            let all = whole(&layout, &kvs);
            // What does not show enough is read whole.
            if let Some(seen) = see(&layout, Some(&me), &kvs) {
                let (expected, shown) = (all.clone().around(Some(&me)), seen.view.around(Some(&me)));
                prop_assert_eq!(shown.ahead_of(&me), all.position(&me));
                let end = expected.position(&me).unwrap();
                prop_assert_eq!(&ids(&shown)[..=end], &ids(&expected)[..=end]);
                for mode in MODES {
                    let has = |view: &QueueView| view.contenders.iter().any(|contender| contender.mode == mode);
                    prop_assert_eq!(has(&shown), has(&all));
                }
            }
            if let Some(seen) = see(&layout, None, &kvs) {
                prop_assert_eq!(seen.view.contenders.first(), all.contenders.first());
                prop_assert_eq!(seen.view.contenders.len() + seen.view.omitted, all.contenders.len());
            }
        }
    }

    #[test]
    fn a_place_in_a_queue_of_thousands_is_read_with_few_others() {
        let layout = Layout::new("/x", KeyNaming::Ours);
        let kvs = keys(&layout, &[Mode::Mutex; 5_000], 32);
        let me = whole(&layout, &kvs).contenders[4_321].id.clone();
        let spot = KeyPosition::of(&layout, Some(&me)).unwrap();
        let read = answers(spot.ranges(&layout, &queue(), true), &kvs);
        let shown = |answer: &ResponseOp| range_of(answer).map_or(0, |range| range.kvs.len());
        assert!(read.iter().map(shown).sum::<usize>() <= 2 * 32 + 64 + 1);
        let seen = spot.read(&layout, &queue(), ConnectionNumber(1), &read).unwrap().expect("it shows enough");
        let view = seen.view.around(Some(&me));
        assert_eq!((view.ahead_of(&me), view.contenders.len(), seen.length), (Some(4_321), 4, 4_352));
        assert!(see(&layout, None, &kvs).is_some_and(|seen| seen.view.around(None).omitted == 5_000 - 3));
    }

    #[test]
    fn a_queue_whose_segments_are_not_in_order_is_read_whole() {
        let layout = Layout::new("/x", KeyNaming::Ours);
        let mut kvs = keys(&layout, &[Mode::Mutex; 100], 32);
        kvs.drain(..90);
        let mut late = keys(&layout, &[Mode::Mutex], 32);
        late[0].create_revision = 1_000;
        kvs.append(&mut late);
        let me = whole(&layout, &kvs).contenders[10].id.clone();
        assert!(see(&layout, Some(&me), &kvs).is_none());
    }

    #[test]
    fn a_place_behind_others_than_its_segment_says_is_not_seen_by_these_ranges() {
        let layout = Layout::new("/x", KeyNaming::Ours);
        let mut kvs = keys(&layout, &[Mode::Mutex; 192], 32);
        kvs.drain(..64);
        // These have joined the first segment again.
        for mut late in keys(&layout, &[Mode::Mutex; 40], 40) {
            late.create_revision += 1_000;
            kvs.push(late);
        }
        let me = whole(&layout, &kvs).contenders[127].id.clone();
        assert!(see(&layout, Some(&me), &kvs).is_none() && see(&layout, None, &kvs).is_none());
    }

    #[test]
    fn a_place_whose_nearest_lie_far_ahead_among_many_is_not_seen_by_these_ranges() {
        let layout = Layout::new("/x", KeyNaming::Ours);
        let modes = [vec![Mode::Write; 100], vec![Mode::Read; 100]].concat();
        let kvs = keys(&layout, &modes, 32);
        let me = whole(&layout, &kvs).contenders[199].id.clone();
        assert!(see(&layout, Some(&me), &kvs).is_none());
    }
}
