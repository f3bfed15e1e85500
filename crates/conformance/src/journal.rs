//! Observers that record the events they receive, or only count joins, and can wait for more.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper_recipes::{Event, Observer};
use tokio::sync::{Notify, watch};

use crate::waiting::soon;

/// The events that an observer received, in order.
#[derive(Default)]
pub struct Journal {
    events: watch::Sender<Vec<Event>>,
}

impl Journal {
    /// Returns how many of these events were received.
    pub fn count(&self, which: impl Fn(&Event) -> bool) -> usize {
        count(&self.events.borrow(), which)
    }

    /// Waits until at least so many of these events were received, which must be [`soon`].
    pub async fn until_count(&self, what: &str, least: usize, which: impl Fn(&Event) -> bool + Send + Sync) {
        let mut events = self.events.subscribe();
        let enough = events.wait_for(|events| count(events, &which) >= least);
        soon(what, enough).await.expect("the journal lives");
    }

    /// Returns all events that were received, in order.
    pub fn events(&self) -> Vec<Event> {
        self.events.borrow().clone()
    }

    /// Returns the names of the received events of locks, not of sessions, in order.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.events.borrow().iter().filter_map(kind_of).collect()
    }
}

fn count(events: &[Event], which: impl Fn(&Event) -> bool) -> usize {
    events.iter().filter(|event| which(event)).count()
}

/// Tells whether an event is that of a place in a queue.
pub fn is_joined(event: &Event) -> bool {
    matches!(event, Event::Joined { .. })
}

fn kind_of(event: &Event) -> Option<&'static str> {
    match event {
        Event::Joined { .. } => Some("joined"),
        Event::Rejoining { .. } => Some("rejoining"),
        Event::Retrying { .. } => Some("retrying"),
        Event::Granted { .. } => Some("granted"),
        Event::NotAcquired { .. } => Some("not acquired"),
        Event::Released { .. } => Some("released"),
        Event::SessionOpened { .. }
        | Event::Weakened { .. }
        | Event::SessionLost { .. }
        | Event::Jeopardy { .. }
        | Event::JeopardyOver { .. } => None,
        _ => Some("another"),
    }
}

impl Observer for Journal {
    fn on_event(&self, event: &Event) {
        self.events.send_modify(|events| events.push(event.clone()));
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Journal").field(&self.kinds()).finish()
    }
}

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
