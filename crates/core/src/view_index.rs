//! Where each contender stands in a long queue: thousands of contenders that joined together look for their places in
//! one view.

use std::fmt;
use std::sync::Arc;

use crate::contender::{Contender, ContenderId, Mode};

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
