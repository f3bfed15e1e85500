//! A keeper, and the events that its observer received.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_recipes::retry::RetryPolicy;
use lockkeeper_recipes::{Event, Keeper, Observer};
use lockkeeper_zookeeper::ZooKeeperBackend;
use tokio::sync::watch;

use super::way::url;

/// A keeper and the events that its observer received.
#[derive(Debug)]
pub(crate) struct Party {
    pub(crate) keeper: Keeper,
    pub(crate) journal: Arc<Journal>,
}

impl Party {
    pub(crate) fn new(servers: impl Display, settings: &str) -> Self {
        let backend = ZooKeeperBackend::open(&url(servers, settings)).expect("a good URL");
        let journal = Arc::new(Journal { events: watch::Sender::new(Vec::new()) });
        let keeper = Keeper::builder(Arc::new(backend))
            .observer(journal.clone())
            .retry(RetryPolicy::forever(Duration::from_millis(50), Duration::from_millis(500)))
            .build();
        Self { keeper, journal }
    }
}

/// Remembers events.
#[derive(Debug)]
pub(crate) struct Journal {
    events: watch::Sender<Vec<Event>>,
}

impl Observer for Journal {
    fn on_event(&self, event: &Event) {
        self.events.send_modify(|events| events.push(event.clone()));
    }
}

impl Journal {
    pub(crate) fn count(&self, is_meant: impl Fn(&Event) -> bool) -> usize {
        self.events.borrow().iter().filter(|event| is_meant(event)).count()
    }

    /// Waits until this many such events were received.
    pub(crate) async fn until(&self, count: usize, is_meant: impl Fn(&Event) -> bool + Send + Sync) {
        let mut events = self.events.subscribe();
        let heard = events.wait_for(|events| events.iter().filter(|event| is_meant(event)).count() >= count);
        soon("the event", heard).await.expect("the journal lives");
    }
}

pub(crate) fn is_joined(event: &Event) -> bool {
    matches!(event, Event::Joined { .. })
}
