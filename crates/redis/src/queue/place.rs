//! The place of one of our own contenders in Redis, and the tasks that watch it.

use lockkeeper_session::Mutex;
use tokio::task::AbortHandle;

/// A contender of ours that is stored.
pub(super) type Place = lockkeeper_session::Place<Own>;

/// What Redis keeps of it.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// The task that watches it.
    watcher: Mutex<Option<AbortHandle>>,
    /// The task that watches the plain lock that it took, if it took one.
    plain_watcher: Mutex<Option<AbortHandle>>,
}

impl Own {
    /// Has this task watch it in place of another one.
    pub(super) fn watch_by(&self, watcher: Option<AbortHandle>) {
        let before = std::mem::replace(&mut *self.watcher.lock(), watcher);
        if let Some(before) = before {
            before.abort();
        }
    }
}

/// Has a task watch a contender's plain lock, unless one does already.
pub(super) fn watch_plain_by(place: &Place, spawn: impl FnOnce() -> AbortHandle) {
    let mut present = place.own.plain_watcher.lock();
    if place.bond.stands() && present.is_none() {
        *present = Some(spawn());
    }
}

impl lockkeeper_session::Own for Own {
    fn withdrawn(&self) {
        self.watch_by(None);
        if let Some(watcher) = self.plain_watcher.lock().take() {
            watcher.abort();
        }
    }
}
