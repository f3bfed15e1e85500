//! An observer that records the events it receives, and can wait for more.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lockkeeper_recipes::{Event, Observer};
use tokio::sync::watch;

use crate::waiting::soon;

/// The events that one keeper's observer received, in order.
#[derive(Default)]
pub(crate) struct Journal {
    events: Mutex<Vec<Event>>,
    heard: watch::Sender<usize>,
}

impl Journal {
    pub(crate) fn count(&self, which: impl Fn(&Event) -> bool) -> usize {
        self.events().iter().filter(|event| which(event)).count()
    }

    /// Waits until at least `count` of these events were received.
    pub(crate) async fn until_count(&self, what: &str, count: usize, which: impl Fn(&Event) -> bool + Send + Sync) {
        let mut heard = self.heard.subscribe();
        let enough = heard.wait_for(|_| self.count(&which) >= count);
        soon(what, enough).await.expect("the journal lives");
    }

    /// Returns the names of the received events of locks, not of sessions, in order.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.events().iter().filter_map(kind_of).collect()
    }

    pub(crate) fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        | Event::SessionLost { .. }
        | Event::Jeopardy { .. }
        | Event::JeopardyOver { .. } => None,
        _ => Some("another"),
    }
}

impl Observer for Journal {
    fn on_event(&self, event: &Event) {
        self.events().push(event.clone());
        self.heard.send_modify(|heard| *heard += 1);
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Journal").field(&self.kinds()).finish()
    }
}
