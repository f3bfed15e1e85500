//! Watches set again after a reconnect, and how many there may be.

use lockkeeper_zk_proto::message::{AddWatchMode, EventKind, SetWatches, WatcherEvent};

use crate::connection_id::ConnectionId;
use crate::machine::dispatch::Requester;
use crate::machine::server::ServerMachine;

impl ServerMachine {
    /// Sets watches again. Events that were missed meanwhile are sent at once instead, in the order of the request.
    pub(super) fn set_watches(&mut self, caller: &Requester, wishes: &SetWatches) {
        let since = wishes.relative_zxid;
        for path in &wishes.data {
            match self.state.tree.get(path).map(|node| node.record.mzxid) {
                None => self.tell(caller, EventKind::NodeDeleted, path),
                Some(mzxid) if mzxid > since => self.tell(caller, EventKind::NodeDataChanged, path),
                Some(_) => self.watches.watch_data(path, caller.connection),
            }
        }
        for path in &wishes.exist {
            if self.state.tree.get(path).is_some() {
                self.tell(caller, EventKind::NodeCreated, path);
            } else {
                self.watches.watch_data(path, caller.connection);
            }
        }
        for path in &wishes.child {
            match self.state.tree.get(path).map(|node| node.record.pzxid) {
                None => self.tell(caller, EventKind::NodeDeleted, path),
                Some(pzxid) if pzxid > since => self.tell(caller, EventKind::NodeChildrenChanged, path),
                Some(_) => self.watches.watch_children(path, caller.connection),
            }
        }
        for path in &wishes.persistent {
            self.watches.add(path, caller.connection, AddWatchMode::Persistent);
        }
        for path in &wishes.persistent_recursive {
            self.watches.add(path, caller.connection, AddWatchMode::PersistentRecursive);
        }
    }

    /// Whether a connection's watches take more memory than they may, or it is one of those that fill it altogether.
    pub(super) fn is_over_watch_limit(&self, id: ConnectionId) -> bool {
        let (own, limits) = (self.watches.bytes_of(id), &self.settings.limits);
        own > limits.watch_bytes_per_connection_max || own > 0 && self.watches.bytes() > limits.watch_bytes_max
    }

    fn tell(&mut self, caller: &Requester, kind: EventKind, path: &str) {
        self.send_event(&WatcherEvent::new(kind, path), [caller.connection]);
    }
}
