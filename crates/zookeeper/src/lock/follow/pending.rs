//! Reports of watches, until they are read: the last change of each node, and not too many of them.

use std::collections::BTreeMap;

use lockkeeper_zk_proto::message::{WatchEventKind, WatcherEvent};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How many nodes may have changed before all is read anew: some 2 MB of paths, and as many reads as take two seconds.
const CHANGES_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NodeChange {
    /// It was created, and perhaps written since.
    Created,
    Written,
    Deleted,
}

/// The nodes that have changed, by their paths as the server knows them.
pub(super) type NodeChanges = BTreeMap<String, NodeChange>;

/// The changes that watches have shown and no reader has taken.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    noted: Mutex<NotedChanges>,
    came: Notify,
}

#[derive(Debug, Default)]
struct NotedChanges {
    changes: NodeChanges,
    /// There were more than are kept, so that none are.
    is_too_much: bool,
}

impl PendingChanges {
    /// Notes an event; quick, since the session waits.
    pub(super) fn note(&self, event: &WatcherEvent) {
        let change = match event.kind {
            WatchEventKind::NodeCreated => NodeChange::Created,
            WatchEventKind::NodeDataChanged => NodeChange::Written,
            WatchEventKind::NodeDeleted => NodeChange::Deleted,
            _ => return,
        };
        let mut noted = self.noted.lock();
        if noted.is_too_much {
            return;
        }
        let is_full = noted.changes.len() >= CHANGES_MAX;
        match noted.changes.get_mut(&event.path) {
            Some(NodeChange::Created) if change == NodeChange::Written => {}
            Some(last) => *last = change,
            None if is_full => *noted = NotedChanges { is_too_much: true, ..NotedChanges::default() },
            None => drop(noted.changes.insert(event.path.clone(), change)),
        }
        drop(noted);
        self.came.notify_one();
    }

    pub(super) fn clear(&self) {
        *self.noted.lock() = NotedChanges::default();
    }

    /// Waits until there is a change. Dropping the future loses nothing.
    pub(super) async fn until_any(&self) {
        loop {
            {
                let noted = self.noted.lock();
                if noted.is_too_much || !noted.changes.is_empty() {
                    return;
                }
            }
            // A notice that comes before this is kept.
            self.came.notified().await;
        }
    }

    /// Takes the changes; `None` if there were too many, and all must be read anew.
    pub(super) fn take(&self) -> Option<NodeChanges> {
        let mut noted = self.noted.lock();
        (!noted.is_too_much).then(|| std::mem::take(&mut noted.changes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(pending: &PendingChanges, kind: WatchEventKind, path: &str) {
        pending.note(&WatcherEvent::new(kind, path));
    }

    #[tokio::test]
    async fn the_last_change_of_a_node_counts_but_a_write_leaves_it_new() {
        let pending = PendingChanges::default();
        for (kind, path) in [
            (WatchEventKind::NodeCreated, "/a"),
            (WatchEventKind::NodeDataChanged, "/a"),
            (WatchEventKind::NodeDeleted, "/b"),
            (WatchEventKind::NodeCreated, "/b"),
            (WatchEventKind::NodeCreated, "/c"),
            (WatchEventKind::NodeDeleted, "/c"),
            (WatchEventKind::NodeChildrenChanged, "/d"),
            (WatchEventKind::NodeDataChanged, "/e"),
        ] {
            note(&pending, kind, path);
        }
        pending.until_any().await;
        let expected = [
            ("/a", NodeChange::Created),
            ("/b", NodeChange::Created),
            ("/c", NodeChange::Deleted),
            ("/e", NodeChange::Written),
        ];
        let taken = pending.take().unwrap();
        assert_eq!(taken.iter().map(|(path, change)| (path.as_str(), *change)).collect::<Vec<_>>(), expected);
        assert!(pending.take().unwrap().is_empty());
    }

    #[tokio::test]
    async fn too_many_changes_are_dropped_and_say_so_until_all_is_read_anew() {
        let pending = PendingChanges::default();
        for number in 0..CHANGES_MAX {
            note(&pending, WatchEventKind::NodeCreated, &format!("/{number}"));
        }
        note(&pending, WatchEventKind::NodeDeleted, "/0");
        assert_eq!(pending.noted.lock().changes.len(), CHANGES_MAX);
        note(&pending, WatchEventKind::NodeCreated, "/one-more");
        note(&pending, WatchEventKind::NodeCreated, "/another");
        pending.until_any().await;
        assert_eq!(pending.take(), None);
        pending.clear();
        note(&pending, WatchEventKind::NodeCreated, "/a");
        assert_eq!(pending.take().unwrap().len(), 1);
    }
}
