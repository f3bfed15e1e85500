//! The place of one of our own contenders in etcd: its key, and the watch on it.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use lockkeeper_session::Mutex;

use crate::layout::{Name, Position};
use crate::rpc::Watch;

/// A contender of ours that is stored.
pub(super) type Place = lockkeeper_session::Place<Own>;

/// What etcd keeps of it.
pub(crate) struct Own {
    pub(super) key: Vec<u8>,
    pub(super) name: Name,
    /// The revision at which it was created.
    pub(super) created: i64,
    /// Counts those that stand beside this one, or beside the one that this one stands beside.
    pub(super) beside: Arc<AtomicU32>,
    pub(super) watch: Mutex<Option<Watch>>,
}

impl Own {
    pub(super) fn position(&self) -> Position {
        self.name.position(self.created)
    }

    /// Whether it is being watched.
    pub(super) fn is_watched(&self) -> bool {
        self.watch.lock().as_ref().is_some_and(Watch::is_live)
    }

    /// Keeps a watch on it in place of another one, which is returned: it ends when it is dropped.
    pub(super) fn swap_watch(&self, watch: Option<Watch>) -> Option<Watch> {
        std::mem::replace(&mut *self.watch.lock(), watch)
    }
}

impl lockkeeper_session::Own for Own {
    fn withdrawn(&self) {
        drop(self.swap_watch(None));
    }
}
