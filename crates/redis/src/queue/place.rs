//! What Redis keeps of one of our own contenders, and the tasks that watch it.

use std::sync::{Mutex, MutexGuard, PoisonError};

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
        let before = std::mem::replace(&mut *locked(&self.watcher), watcher);
        if let Some(before) = before {
            before.abort();
        }
    }
}

/// Has a task watch a contender's plain lock, unless one does already.
pub(super) fn watch_plain_by(place: &Place, spawn: impl FnOnce() -> AbortHandle) {
    let mut present = locked(&place.own.plain_watcher);
    if place.bond.stands() && present.is_none() {
        *present = Some(spawn());
    }
}

impl lockkeeper_session::Own for Own {
    fn withdrawn(&self) {
        self.watch_by(None);
        if let Some(watcher) = locked(&self.plain_watcher).take() {
            watcher.abort();
        }
    }
}

/// Nothing panics while one of these is locked.
fn locked(watcher: &Mutex<Option<AbortHandle>>) -> MutexGuard<'_, Option<AbortHandle>> {
    watcher.lock().unwrap_or_else(PoisonError::into_inner)
}
