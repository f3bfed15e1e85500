//! One table of watches: by path and by connection.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::connection_id::ConnectionId;

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

/// What one connection watches.
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
