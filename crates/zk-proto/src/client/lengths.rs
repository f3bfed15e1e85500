//! Lengths of the answers to lists, to estimate how long the next ones will be.

use std::collections::BTreeMap;

/// How many nodes are remembered; at this number all are forgotten, and count as unknown.
const NODES_MAX: usize = 1_024;

/// What the answer to a list of unknown length counts for, in bytes: [`IN_FLIGHT_MAX`](super::IN_FLIGHT_MAX) such
/// lists make up [`IN_FLIGHT_BYTES_MAX`](super::IN_FLIGHT_BYTES_MAX), and each is as long as the names of two hundred
/// contenders.
const UNKNOWN_BYTES: usize = 16 * 1024;

/// What any other answer counts for, in bytes: most are shorter.
const OTHER_BYTES: usize = 512;

/// Remembers of each node how long the last list of its children was.
#[derive(Debug, Default)]
pub(super) struct ListLengths {
    nodes: BTreeMap<Box<str>, usize>,
}

impl ListLengths {
    /// Estimates how many bytes the answer to a request takes; `lists` is the node whose children it lists, if it does.
    pub(super) fn foresee(&self, lists: Option<&str>) -> usize {
        match lists {
            Some(node) => self.nodes.get(node).copied().unwrap_or(UNKNOWN_BYTES),
            None => OTHER_BYTES,
        }
    }

    /// Notes how long a list was.
    pub(super) fn note(&mut self, node: Box<str>, bytes: usize) {
        if self.nodes.len() >= NODES_MAX && !self.nodes.contains_key(&node) {
            self.nodes.clear();
        }
        self.nodes.insert(node, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_expected_to_be_as_long_as_the_last_one_of_its_node() {
        let mut lengths = ListLengths::default();
        assert_eq!(lengths.foresee(Some("/a")), UNKNOWN_BYTES);
        lengths.note("/a".into(), 600_000);
        assert_eq!((lengths.foresee(Some("/a")), lengths.foresee(Some("/b"))), (600_000, UNKNOWN_BYTES));
        lengths.note("/a".into(), 20);
        assert_eq!((lengths.foresee(Some("/a")), lengths.foresee(None)), (20, OTHER_BYTES));
    }

    #[test]
    fn the_number_of_remembered_nodes_has_a_maximum() {
        let mut lengths = ListLengths::default();
        for node in 0..3 * NODES_MAX {
            lengths.note(node.to_string().into(), 1);
        }
        assert!(lengths.nodes.len() <= NODES_MAX);
    }
}
