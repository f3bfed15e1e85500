//! State that the calls of one session share: its queues, its own contenders, and which of them are to be watched.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::session::Core;

pub(crate) struct Redis {
    pub(super) core: Arc<Core>,
    pub(super) young: Young,
}

pub(super) type Queues = lockkeeper_session::Queues<Redis>;

pub(super) type RedisPlace = lockkeeper_session::Place<RedisOwn>;

#[derive(Debug, Default)]
pub(crate) struct RedisOwn {
    watcher: Mutex<Option<AbortHandle>>,
    /// The task that watches the plain lock that it took, if it took one.
    plain_watcher: Mutex<Option<AbortHandle>>,
}

impl RedisOwn {
    /// Has this task watch it in place of another one.
    pub(super) fn watch_by(&self, watcher: Option<AbortHandle>) {
        let before = std::mem::replace(&mut *self.watcher.lock(), watcher);
        if let Some(before) = before {
            before.abort();
        }
    }
}

/// Has a task watch a contender's plain lock, unless one does already.
pub(super) fn watch_plain_by(place: &RedisPlace, spawn: impl FnOnce() -> AbortHandle) {
    let mut present = place.own.plain_watcher.lock();
    if place.bond.stands() && present.is_none() {
        *present = Some(spawn());
    }
}

impl lockkeeper_session::Own for RedisOwn {
    fn withdrawn(&self) {
        self.watch_by(None);
        if let Some(watcher) = self.plain_watcher.lock().take() {
            watcher.abort();
        }
    }
}

/// How long a contender stands before it is watched.
const WATCH_AFTER: Duration = Duration::from_millis(100);

/// The places that have not stood for long. Each costs its join a note here, and no task.
#[derive(Debug, Default)]
pub(super) struct Young {
    /// In the order in which they were placed. The joins of a tenth of a second are their limit.
    places: Mutex<VecDeque<Weak<RedisPlace>>>,
    /// Tells that there is one again.
    first: Notify,
}

impl Young {
    pub(super) fn add(&self, place: &Arc<RedisPlace>) {
        let mut places = self.places.lock();
        places.push_back(Arc::downgrade(place));
        if places.len() == 1 {
            self.first.notify_one();
        }
    }

    /// Waits until one has stood for long enough, and returns it. Dropping the future loses none.
    pub(super) async fn grown(&self, clock: &dyn Clock) -> Arc<RedisPlace> {
        loop {
            let Some(place) = self.oldest() else {
                self.first.notified().await;
                continue;
            };
            let due_at = place.placed_at.saturating_add(WATCH_AFTER);
            if clock.now() >= due_at {
                self.places.lock().pop_front();
                return place;
            }
            drop(place);
            clock.sleep_until(due_at).await;
        }
    }

    /// Returns the oldest that stands, and forgets those before it.
    fn oldest(&self) -> Option<Arc<RedisPlace>> {
        let mut places = self.places.lock();
        loop {
            match places.front()?.upgrade().filter(|place| place.bond.stands()) {
                Some(place) => return Some(place),
                None => drop(places.pop_front()),
            }
        }
    }
}
