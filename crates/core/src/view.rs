//! A view of a queue.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::contender::{Contender, ContenderId, Mode};

/// The connection on which something was seen. What was seen on one connection proves nothing on another.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnectionNumber(pub u64);

/// How fresh a view must be.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "each backend answers every one")]
pub enum Freshness {
    /// It shows all writes, of every client, that were acknowledged before the call, or a later state.
    Latest,
    /// It is of a session that stands in the queue and was just told of a departure there. It shows that departure, and
    /// every contender that is ahead of us or was a moment ago. Where that is cheaper, it may leave out the contenders
    /// that joined since, behind us.
    AfterDeparture,
}

/// How much of a queue a view must show. It may always show more: a service that has the whole queue in hand anyway
/// need leave nothing out.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "each backend answers every one")]
pub enum Extent<'a> {
    /// All contenders.
    Whole,
    /// What decides for one place whether its turn has come, as [`QueueView::around`] says: the place of this
    /// contender, or one at the tail that is not taken yet. It keeps a join in a queue of thousands from reading
    /// thousands of contenders.
    Around(Option<&'a ContenderId>),
}

/// What a mutex is to a read/write lock of the same name.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the decision is complete over it")]
pub enum MutexRole {
    /// The exclusive side of it: both are one lock with one queue. This holds for every name of our own.
    #[default]
    Writer,
    /// Another kind of lock, which never waits in the same queue. This holds for a path that is shared with other
    /// clients, whose mutexes and read/write locks do not see each other.
    Stranger,
}

/// A queue as it stood at one moment, first contender first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueView {
    /// The connection that the view was seen on.
    pub connection: ConnectionNumber,
    /// The contenders in their order; permits are in no order.
    pub contenders: Arc<[Contender]>,
    /// How many contenders ahead of the place that the view was asked for are not shown; 0 in a whole view. Beyond a
    /// thousand it may be a lower bound, where the service would have to read them all to count them. Contenders behind
    /// that place may be left out without being counted.
    pub omitted: usize,
    /// What a contender asks for on the [other side](crate::Part::opposite) of the same lock: a permit, seen from the
    /// line, or the reverse. Whether that keeps a contender out is not decided here.
    pub elsewhere: Option<Mode>,
    /// What a mutex is in this queue to a read/write lock.
    pub mutex_role: MutexRole,
    /// The mode in which candidates appear here: that of a mutex where an election is laid out as one.
    pub candidate: Mode,
    /// All copies share it, as they share the contenders; `None` for a queue that is too short for one.
    pub(crate) index: Option<Arc<OnceLock<Index>>>,
}

impl QueueView {
    /// Makes the view of a queue on a name of our own, whose lock has no contender on its other side.
    pub fn new(connection: ConnectionNumber, contenders: impl Into<Arc<[Contender]>>) -> Self {
        let (mutex_role, candidate) = (MutexRole::default(), Mode::Candidate);
        let contenders = contenders.into();
        let index = index_of(&contenders);
        Self { connection, contenders, omitted: 0, elsewhere: None, mutex_role, candidate, index }
    }

    /// Leaves out what does not decide for the place of this contender, or for one at the tail if it is not shown.
    ///
    /// It keeps the first contender, the place itself, the two nearest contenders ahead of it of each mode, and one
    /// contender at least of each mode that is shown anywhere. That is enough for every decision, whichever modes
    /// exclude one another: which contender the place waits for, whether another contender ahead keeps it waiting too,
    /// and whether there is one of a mode that never waits in the same queue.
    #[must_use]
    pub fn around(self, place: Option<&ContenderId>) -> Self {
        const NEAREST: usize = 2;
        if self.contenders.len() <= 1 {
            return self;
        }
        let end = place.and_then(|place| self.position(place)).unwrap_or(self.contenders.len());
        let mut kept = vec![false; self.contenders.len()];
        let mut counts: Vec<(Mode, usize)> = Vec::new();
        let mut count = |mode: Mode| -> usize {
            if let Some((_, count)) = counts.iter_mut().find(|(counted, _)| *counted == mode) {
                *count += 1;
                return *count;
            }
            counts.push((mode, 1));
            1
        };
        for (at, contender) in self.contenders[..end].iter().enumerate().rev() {
            kept[at] = count(contender.mode) <= NEAREST || at == 0;
        }
        for (at, contender) in self.contenders.iter().enumerate().skip(end) {
            kept[at] = count(contender.mode) == 1 || at == end;
        }
        if kept.iter().all(|&is_kept| is_kept) {
            return self;
        }
        let omitted = self.omitted + kept[..end].iter().filter(|&&is_kept| !is_kept).count();
        let shown = self.contenders.iter().zip(&kept).filter(|&(_, &is_kept)| is_kept);
        let contenders: Arc<[_]> = shown.map(|(contender, _)| contender.clone()).collect();
        let index = index_of(&contenders);
        Self { contenders, omitted, index, ..self }
    }

    /// Returns how many contenders stand ahead of this one, if it is the one that the view was asked for, or if the
    /// view is whole; `None` if it is not shown.
    pub fn ahead_of(&self, id: &ContenderId) -> Option<usize> {
        self.position(id).map(|position| position + self.omitted)
    }

    /// Returns where this contender stands among those that are shown; `None` if it is not shown.
    pub fn position(&self, id: &ContenderId) -> Option<usize> {
        match self.index() {
            Some(index) => index.position(id),
            None => self.contenders.iter().position(|contender| contender.id == *id),
        }
    }

    /// Returns the first mode of this kind that a contender asks for.
    pub fn first_mode(&self, is_meant: impl Fn(Mode) -> bool) -> Option<Mode> {
        match self.index() {
            Some(index) => index.modes().find(|&mode| is_meant(mode)),
            None => self.contenders.iter().map(|contender| contender.mode).find(|&mode| is_meant(mode)),
        }
    }

    /// Returns the index of a queue that is long enough for one.
    fn index(&self) -> Option<&Index> {
        let index = self.index.as_ref()?.get_or_init(|| Index::new(self.contenders.clone()));
        // The field `contenders` is public, so it may have been replaced since.
        index.is_of(&self.contenders).then_some(index)
    }
}

/// Room for the index of a queue that is long enough for one.
fn index_of(contenders: &[Contender]) -> Option<Arc<OnceLock<Index>>> {
    (contenders.len() >= INDEXED_MIN).then(Arc::default)
}

/// The least length of a queue for which an index is made: a search of a shorter queue takes less time.
pub(crate) const INDEXED_MIN: usize = 64;

/// The places of the contenders of one view, and the modes among them.
pub(crate) struct Index {
    contenders: Arc<[Contender]>,
    /// The places, in the order of the contenders' identities.
    by_id: Vec<usize>,
    /// Each mode once, in the order of the first contender that asks for it.
    modes: Vec<Mode>,
}

impl Index {
    pub(crate) fn new(contenders: Arc<[Contender]>) -> Self {
        let mut by_id: Vec<_> = (0..contenders.len()).collect();
        by_id.sort_unstable_by(|&one, &other| contenders[one].id.cmp(&contenders[other].id));
        let mut modes = Vec::new();
        for contender in contenders.iter() {
            if !modes.contains(&contender.mode) {
                modes.push(contender.mode);
            }
        }
        Self { contenders, by_id, modes }
    }

    /// Whether it was made of these contenders.
    pub(crate) fn is_of(&self, contenders: &Arc<[Contender]>) -> bool {
        Arc::ptr_eq(&self.contenders, contenders)
    }

    pub(crate) fn position(&self, id: &ContenderId) -> Option<usize> {
        let at = self.by_id.binary_search_by(|&at| self.contenders[at].id.cmp(id)).ok()?;
        Some(self.by_id[at])
    }

    pub(crate) fn modes(&self) -> impl Iterator<Item = Mode> {
        self.modes.iter().copied()
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Index").field(&self.modes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{ConnectionNumber, QueueView};

    fn view(modes: &[Mode]) -> QueueView {
        let contender = |(at, &mode): (usize, &Mode)| Contender { id: id(at), ticket: None, mode };
        QueueView::new(ConnectionNumber(1), modes.iter().enumerate().map(contender).collect::<Vec<_>>())
    }

    fn id(at: usize) -> ContenderId {
        ContenderId::new(at.to_string())
    }

    fn shown(view: &QueueView) -> Vec<&str> {
        view.contenders.iter().map(|contender| contender.id.as_str()).collect()
    }

    #[test]
    fn a_view_around_a_place_shows_the_first_the_nearest_ahead_and_one_of_each_mode() {
        let whole = view(&[Mode::Mutex; 100]);
        let around = whole.clone().around(Some(&id(90)));
        assert_eq!((shown(&around), around.omitted), (vec!["0", "88", "89", "90"], 87));
        assert_eq!(around.ahead_of(&id(90)), Some(90));
        let tail = whole.clone().around(None);
        assert_eq!((shown(&tail), tail.omitted), (vec!["0", "98", "99"], 97));
        assert_eq!(whole.around(Some(&id(0))).ahead_of(&id(0)), Some(0));
        let mut modes = vec![Mode::Read; 50];
        (modes[10], modes[40]) = (Mode::Write, Mode::Acquire);
        let around = view(&modes).around(Some(&id(20)));
        assert_eq!(shown(&around), ["0", "10", "18", "19", "20", "40"]);
    }

    #[test]
    fn a_short_queue_is_shown_whole() {
        for count in 0..=4 {
            let around = view(&vec![Mode::Write; count]).around(count.checked_sub(1).map(id).as_ref());
            assert_eq!((around.contenders.len(), around.omitted), (count, 0));
        }
    }

    fn contenders(count: usize) -> Vec<Contender> {
        let modes = [Mode::Write, Mode::Read, Mode::Read];
        let contender = |at: usize| Contender {
            // Their names are in no order.
            id: ContenderId::new(format!("{}-{at}", at * 7 % 13)),
            ticket: None,
            mode: modes[at % modes.len()],
        };
        (0..count).map(contender).collect()
    }

    #[test]
    fn every_contender_is_found_where_it_stands_in_short_and_in_long_queues() {
        for count in [0, 1, INDEXED_MIN - 1, INDEXED_MIN, 10 * INDEXED_MIN] {
            let contenders = contenders(count);
            let view = QueueView::new(ConnectionNumber(1), contenders.clone());
            for (at, contender) in contenders.iter().enumerate() {
                assert_eq!(view.position(&contender.id), Some(at));
            }
            assert_eq!(view.position(&ContenderId::new("absent")), None);
            assert_eq!(view.first_mode(|mode| mode != Mode::Write), contenders.get(1).map(|_| Mode::Read));
            assert_eq!(view.first_mode(|mode| mode == Mode::Permit), None);
        }
    }

    #[test]
    fn a_view_whose_contenders_were_replaced_is_searched_without_its_index() {
        let mut view = QueueView::new(ConnectionNumber(1), contenders(INDEXED_MIN));
        assert_eq!(view.first_mode(|mode| mode == Mode::Member), None);
        let mut replaced = contenders(INDEXED_MIN + 1);
        replaced[INDEXED_MIN].mode = Mode::Member;
        view.contenders = replaced.into();
        assert_eq!(view.first_mode(|mode| mode == Mode::Member), Some(Mode::Member));
        assert_eq!(view.position(&view.contenders[INDEXED_MIN].id), Some(INDEXED_MIN));
    }
}
