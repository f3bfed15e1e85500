//! An observer that counts joins, for tests with more contenders than a journal should hold.

use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper_recipes::{Event, Observer};
use tokio::sync::Notify;

/// How many contenders have joined their queues, and how many had to begin anew.
#[derive(Debug, Default)]
pub struct Joins {
    joined: AtomicUsize,
    retries: AtomicUsize,
    more: Notify,
}

impl Joins {
    /// Counts from here on.
    pub fn begin(&self) {
        self.joined.store(0, Ordering::SeqCst);
        self.retries.store(0, Ordering::SeqCst);
    }

    /// Returns how many have joined.
    pub fn count(&self) -> usize {
        self.joined.load(Ordering::SeqCst)
    }

    /// Returns how many joins and waits had to begin anew.
    pub fn retries(&self) -> usize {
        self.retries.load(Ordering::SeqCst)
    }

    /// Waits until at least so many have joined; for one caller at a time.
    pub async fn reached(&self, least: usize) {
        while self.count() < least {
            self.more.notified().await;
        }
    }
}

impl Observer for Joins {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Joined { .. } => {
                self.joined.fetch_add(1, Ordering::SeqCst);
                self.more.notify_one();
            }
            Event::Rejoining { .. } | Event::Retrying { .. } => {
                self.retries.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
    }
}
