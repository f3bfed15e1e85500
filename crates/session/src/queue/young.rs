//! Our own contenders that are to be watched once they have stood for a while.
//!
//! Most locks are released soon, and then a watch would cost more than the lock. How a contender is watched, and
//! whether one must be at once since its owner waits, the backend knows.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::queue::entries::{Own, Place};

/// How long a contender stands before it is watched.
pub const WATCH_AFTER: Duration = Duration::from_millis(100);

/// The places that are not watched yet. Each costs its join a note here, and no task.
#[derive(Debug)]
pub struct Young<O> {
    /// When each is to be watched, in the order in which they came. The joins of a tenth of a second are their limit.
    places: Mutex<VecDeque<(BootInstant, Weak<Place<O>>)>>,
    /// Tells that there is one again.
    first: Notify,
}

impl<O> Default for Young<O> {
    fn default() -> Self {
        Self { places: Mutex::default(), first: Notify::new() }
    }
}

impl<O: Own> Young<O> {
    /// Notes a new place.
    pub fn add(&self, place: &Arc<Place<O>>) {
        self.add_until(place, place.placed_at.saturating_add(WATCH_AFTER));
    }

    /// Notes a place that is to be watched from this moment on.
    pub fn add_until(&self, place: &Arc<Place<O>>, due_at: BootInstant) {
        let mut places = self.places.lock();
        places.push_back((due_at, Arc::downgrade(place)));
        if places.len() == 1 {
            self.first.notify_one();
        }
    }

    /// Waits until one is to be watched that stands, and returns it. Dropping the future loses none.
    pub async fn grown(&self, clock: &dyn Clock) -> Arc<Place<O>> {
        loop {
            let Some((due_at, place)) = self.oldest() else {
                self.first.notified().await;
                continue;
            };
            if clock.now() >= due_at {
                self.places.lock().pop_front();
                return place;
            }
            drop(place);
            clock.sleep_until(due_at).await;
        }
    }

    /// Returns the oldest that stands, and forgets those before it.
    fn oldest(&self) -> Option<(BootInstant, Arc<Place<O>>)> {
        let mut places = self.places.lock();
        loop {
            let (due_at, place) = places.front()?;
            match place.upgrade().filter(|place| place.bond.stands()) {
                Some(place) => return Some((*due_at, place)),
                None => drop(places.pop_front()),
            }
        }
    }
}
