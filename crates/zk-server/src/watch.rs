//! Watches: which connection gets which events.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lockkeeper_zk_proto::message::{AddWatchMode, WatchEventKind, WatcherKind};

use crate::session::ConnectionId;
use crate::tree::{TreeChange, split_parent};

#[derive(Debug, Default)]
pub(crate) struct ServerWatches {
    data: WatchTable,
    children: WatchTable,
}

/// An event and the connections it is for, in order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct FiredWatches<'a> {
    pub(crate) kind: WatchEventKind,
    pub(crate) path: &'a str,
    pub(crate) connections: BTreeSet<ConnectionId>,
}

impl ServerWatches {
    /// Sets a one-shot watch on data and existence.
    pub(crate) fn watch_data(&mut self, path: &str, connection: ConnectionId) {
        self.data.add(path, connection, WatchMode::OneShot);
    }

    /// Sets a one-shot watch on the set of children.
    pub(crate) fn watch_children(&mut self, path: &str, connection: ConnectionId) {
        self.children.add(path, connection, WatchMode::OneShot);
    }

    /// Sets a watch that stays.
    pub(crate) fn add(&mut self, path: &str, connection: ConnectionId, mode: AddWatchMode) {
        let mode = match mode {
            AddWatchMode::Persistent => WatchMode::Persistent,
            AddWatchMode::PersistentRecursive => WatchMode::Recursive,
        };
        self.data.add(path, connection, mode);
        self.children.add(path, connection, mode);
    }

    pub(crate) fn contains(&self, path: &str, connection: ConnectionId, kind: WatcherKind) -> bool {
        let (data, children) = tables(kind);
        (data && self.data.contains(path, connection)) || (children && self.children.contains(path, connection))
    }

    /// Removes such watches of the connection; returns whether there were any.
    pub(crate) fn remove(&mut self, path: &str, connection: ConnectionId, kind: WatcherKind) -> bool {
        let (data, children) = tables(kind);
        let was_in_children = children && self.children.remove(path, connection);
        let was_in_data = data && self.data.remove(path, connection);
        was_in_children || was_in_data
    }

    pub(crate) fn remove_connection(&mut self, connection: ConnectionId) {
        self.data.remove_connection(connection);
        self.children.remove_connection(connection);
    }

    /// How many watches there are.
    pub(crate) const fn len(&self) -> usize {
        self.data.len() + self.children.len()
    }

    /// The estimated memory of all watches, in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.data.bytes() + self.children.bytes()
    }

    /// The estimated memory of a connection's watches, in bytes.
    pub(crate) fn bytes_of(&self, connection: ConnectionId) -> usize {
        self.data.bytes_of(connection) + self.children.bytes_of(connection)
    }

    /// The watches on data and existence, for the reports on watches.
    pub(crate) const fn data(&self) -> &WatchTable {
        &self.data
    }

    /// Fires the watches that a change touches; one-shot ones are over with it.
    ///
    /// A deletion is told once to a connection that watches the node in both tables.
    pub(crate) fn fire<'a>(&mut self, change: &'a TreeChange, mut tell: impl FnMut(FiredWatches<'a>)) {
        let mut send = |kind, path, connections: BTreeSet<ConnectionId>| {
            if !connections.is_empty() {
                tell(FiredWatches { kind, path, connections });
            }
        };
        match change {
            TreeChange::Create { path, .. } => {
                send(WatchEventKind::NodeCreated, path, self.data.trigger(path, true));
                if let Some((parent, _)) = split_parent(path) {
                    send(WatchEventKind::NodeChildrenChanged, parent, self.children.trigger(parent, false));
                }
            }
            TreeChange::Delete { path } => {
                let told = self.data.trigger(path, true);
                let mut others = self.children.trigger(path, true);
                others.retain(|connection| !told.contains(connection));
                send(WatchEventKind::NodeDeleted, path, told);
                send(WatchEventKind::NodeDeleted, path, others);
                if let Some((parent, _)) = split_parent(path) {
                    send(WatchEventKind::NodeChildrenChanged, parent, self.children.trigger(parent, false));
                }
            }
            TreeChange::SetData { path, .. } => {
                send(WatchEventKind::NodeDataChanged, path, self.data.trigger(path, true));
            }
            TreeChange::SetAccess { .. } | TreeChange::OpenSession { .. } | TreeChange::CloseSession { .. } => (),
        }
    }
}

/// Which tables a kind of watches stands in: data, children.
const fn tables(kind: WatcherKind) -> (bool, bool) {
    match kind {
        WatcherKind::Children => (false, true),
        WatcherKind::Data => (true, false),
        WatcherKind::Any | WatcherKind::Persistent | WatcherKind::PersistentRecursive => (true, true),
    }
}

/// How long a watch stays and what it covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WatchMode {
    /// Until its first event.
    OneShot,
    /// Until it is removed.
    Persistent,
    /// Until it is removed; the path and all below it.
    Recursive,
}

/// The estimate of a watch's memory besides its path twice, in bytes.
const WATCH_BYTES: usize = 160;

#[derive(Debug, Default)]
struct WatchedPaths {
    paths: BTreeSet<Box<str>>,
    bytes: usize,
}

/// Watches by path, and the paths each connection watches.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    by_path: BTreeMap<Box<str>, BTreeMap<ConnectionId, WatchMode>>,
    by_connection: HashMap<ConnectionId, WatchedPaths>,
    len: usize,
    /// The estimated memory of all watches.
    bytes: usize,
    /// How many recursive watches there are: without any, events need not look at ancestors.
    recursive_count: usize,
}

impl WatchTable {
    /// Sets a watch; one that the connection has on the path already takes on the mode.
    pub(super) fn add(&mut self, path: &str, connection: ConnectionId, mode: WatchMode) {
        let watchers = match self.by_path.get_mut(path) {
            Some(watchers) => watchers,
            None => self.by_path.entry(path.into()).or_default(),
        };
        let before = watchers.insert(connection, mode);
        self.recursive_count += usize::from(mode == WatchMode::Recursive);
        self.recursive_count -= usize::from(before == Some(WatchMode::Recursive));
        if before.is_none() {
            self.len += 1;
            self.bytes += bytes_of_one(path);
            let watched = self.by_connection.entry(connection).or_default();
            watched.bytes += bytes_of_one(path);
            watched.paths.insert(path.into());
        }
    }

    pub(super) fn contains(&self, path: &str, connection: ConnectionId) -> bool {
        self.by_path.get(path).is_some_and(|watchers| watchers.contains_key(&connection))
    }

    pub(super) fn remove(&mut self, path: &str, connection: ConnectionId) -> bool {
        let was_there = self.remove_from_path(path, connection);
        if was_there {
            self.forget(path, &[connection]);
        }
        was_there
    }

    pub(super) fn remove_connection(&mut self, connection: ConnectionId) {
        for path in self.by_connection.remove(&connection).unwrap_or_default().paths {
            self.remove_from_path(&path, connection);
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The estimated memory of all watches, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The estimated memory of a connection's watches, in bytes.
    pub(super) fn bytes_of(&self, connection: ConnectionId) -> usize {
        self.by_connection.get(&connection).map_or(0, |watched| watched.bytes)
    }

    /// How many connections watch anything.
    pub(crate) fn connections_count(&self) -> usize {
        self.by_connection.len()
    }

    /// Each path watched, and by which connections.
    pub(crate) fn paths(&self) -> impl ExactSizeIterator<Item = (&str, impl Iterator<Item = ConnectionId>)> {
        self.by_path.iter().map(|(path, watchers)| (&**path, watchers.keys().copied()))
    }

    /// The connections that an event on a path is for; one-shot watches on it are over. `reaches_ancestors` says
    /// whether it is also for the recursive watches on the path and above it.
    pub(super) fn trigger(&mut self, path: &str, reaches_ancestors: bool) -> BTreeSet<ConnectionId> {
        let mut told = BTreeSet::new();
        let mut over = Vec::new();
        if let Some(watchers) = self.by_path.get_mut(path) {
            watchers.retain(|connection, mode| {
                if *mode != WatchMode::Recursive || reaches_ancestors {
                    told.insert(*connection);
                }
                if *mode == WatchMode::OneShot {
                    over.push(*connection);
                }
                *mode != WatchMode::OneShot
            });
            if watchers.is_empty() {
                self.by_path.remove(path);
            }
        }
        self.len -= over.len();
        self.bytes -= over.len() * bytes_of_one(path);
        self.forget(path, &over);
        if reaches_ancestors && self.recursive_count > 0 {
            for ancestor in ancestors(path) {
                let watchers = self.by_path.get(ancestor).into_iter().flatten();
                told.extend(
                    watchers.filter(|(_, mode)| **mode == WatchMode::Recursive).map(|(connection, _)| *connection),
                );
            }
        }
        told
    }

    /// Removes a path from what these connections watch.
    fn forget(&mut self, path: &str, over: &[ConnectionId]) {
        for connection in over {
            if let Some(watched) = self.by_connection.get_mut(connection) {
                watched.paths.remove(path);
                watched.bytes -= bytes_of_one(path);
                if watched.paths.is_empty() {
                    self.by_connection.remove(connection);
                }
            }
        }
    }

    fn remove_from_path(&mut self, path: &str, connection: ConnectionId) -> bool {
        let Some(watchers) = self.by_path.get_mut(path) else {
            return false;
        };
        let Some(mode) = watchers.remove(&connection) else {
            return false;
        };
        if watchers.is_empty() {
            self.by_path.remove(path);
        }
        self.len -= 1;
        self.bytes -= bytes_of_one(path);
        self.recursive_count -= usize::from(mode == WatchMode::Recursive);
        true
    }
}

const fn bytes_of_one(path: &str) -> usize {
    WATCH_BYTES + 2 * path.len()
}

/// The paths above `path`, nearest first, down to the root.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    })
    .skip(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ConnectionId = ConnectionId::new(1);
    const TWO: ConnectionId = ConnectionId::new(2);

    fn delete(path: &str) -> TreeChange {
        TreeChange::Delete { path: path.into() }
    }

    fn fired(watches: &mut ServerWatches, change: &TreeChange) -> Vec<(WatchEventKind, String, Vec<ConnectionId>)> {
        let mut all = Vec::new();
        watches.fire(change, |fired| {
            all.push((fired.kind, fired.path.to_owned(), fired.connections.into_iter().collect()));
        });
        all
    }

    #[test]
    fn a_deletion_is_told_once_to_a_watcher_of_data_and_children() {
        let mut watches = ServerWatches::default();
        watches.watch_data("/a", ONE);
        watches.watch_children("/a", ONE);
        watches.watch_children("/a", TWO);
        watches.watch_children("/", TWO);
        assert_eq!(
            fired(&mut watches, &delete("/a")),
            [
                (WatchEventKind::NodeDeleted, "/a".into(), vec![ONE]),
                (WatchEventKind::NodeDeleted, "/a".into(), vec![TWO]),
                (WatchEventKind::NodeChildrenChanged, "/".into(), vec![TWO]),
            ]
        );
        assert_eq!(watches.len(), 0);
    }

    #[test]
    fn a_recursive_watch_sees_events_of_descendants_but_not_of_sets_of_children() {
        let mut watches = ServerWatches::default();
        watches.add("/a", ONE, AddWatchMode::PersistentRecursive);
        for _ in 0..2 {
            assert_eq!(
                fired(&mut watches, &delete("/a/b/c")),
                [(WatchEventKind::NodeDeleted, "/a/b/c".into(), vec![ONE])]
            );
        }
        assert_eq!(fired(&mut watches, &delete("/ab")), []);
    }

    #[test]
    fn a_one_shot_wish_takes_the_place_of_a_persistent_watch_as_in_apache_before_3_9() {
        let mut watches = ServerWatches::default();
        watches.add("/a", ONE, AddWatchMode::Persistent);
        watches.watch_data("/a", ONE);
        assert_eq!(fired(&mut watches, &delete("/a")).len(), 1);
        assert!(!watches.contains("/a", ONE, WatcherKind::Data));
        assert!(watches.contains("/a", ONE, WatcherKind::Children));
        assert!(watches.remove("/a", ONE, WatcherKind::Any));
        assert!(!watches.remove("/a", ONE, WatcherKind::Any));
    }

    #[test]
    fn a_connection_that_goes_takes_its_watches_along() {
        let mut watches = ServerWatches::default();
        watches.watch_data("/a", ONE);
        watches.add("/b", ONE, AddWatchMode::Persistent);
        watches.watch_data("/a", TWO);
        watches.remove_connection(ONE);
        assert_eq!((watches.len(), watches.bytes_of(ONE)), (1, 0));
        assert_eq!(watches.bytes(), watches.bytes_of(TWO));
        assert_eq!(fired(&mut watches, &delete("/b")), []);
        assert_eq!(fired(&mut watches, &delete("/a")).len(), 1);
        assert_eq!((watches.len(), watches.bytes(), watches.bytes_of(TWO)), (0, 0, 0));
    }
}
