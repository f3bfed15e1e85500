//! Access lists, each distinct one kept once: most nodes have the same.

use std::collections::HashSet;
use std::sync::Arc;

use lockkeeper_zk_proto::message::Acl;

/// An access list as a node holds it.
pub(crate) type AccessList = Arc<[Acl]>;

/// How many distinct lists are kept before unused ones are looked for; doubles with the lists in use.
const SWEEP_LISTS_MIN: usize = 64;

/// The distinct access lists in use.
#[derive(Debug)]
pub(crate) struct AccessLists {
    lists: HashSet<AccessList>,
    sweep_at: usize,
}

impl Default for AccessLists {
    fn default() -> Self {
        Self { lists: HashSet::new(), sweep_at: SWEEP_LISTS_MIN }
    }
}

impl AccessLists {
    /// The one shared copy of a list.
    pub(crate) fn share(&mut self, list: Vec<Acl>) -> AccessList {
        if let Some(shared) = self.lists.get(list.as_slice()) {
            return Arc::clone(shared);
        }
        if self.lists.len() >= self.sweep_at {
            self.lists.retain(|shared| Arc::strong_count(shared) > 1);
            self.sweep_at = (self.lists.len() * 2).max(SWEEP_LISTS_MIN);
        }
        let shared: AccessList = list.into();
        self.lists.insert(Arc::clone(&shared));
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_are_one_and_unused_ones_are_forgotten() {
        let mut lists = AccessLists::default();
        let first = lists.share(vec![Acl::open()]);
        assert!(Arc::ptr_eq(&first, &lists.share(vec![Acl::open()])));
        for number in 0..10_000 {
            lists.share(vec![Acl::new(Acl::open().permissions, "ip", number.to_string())]);
        }
        assert!(lists.lists.len() <= SWEEP_LISTS_MIN + 1, "{}", lists.lists.len());
        assert!(Arc::ptr_eq(&first, &lists.share(vec![Acl::open()])));
    }
}
