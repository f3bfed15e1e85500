//! The second contender: the library, connected to the servers that keep their quorum.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{Party, is_joined, soon};
use lockkeeper_core::clock::BootInstant;
use lockkeeper_recipes::Event;
use lockkeeper_recipes::retry::RetryPolicy;
use lockkeeper_zookeeper::ZooKeeperBackend;
use tokio::task::JoinHandle;

use crate::ledger::now;
use crate::plan::{SESSION_TIMEOUT, TICK};

/// The URL of these servers, with the settings of this test.
pub(crate) fn url(servers: &str) -> String {
    let (timeout, tick) = (SESSION_TIMEOUT.as_millis(), TICK.as_millis());
    format!("zk://{servers}?session_timeout={timeout}ms&tick={tick}ms")
}

/// A client that waits for the locks that the holders have.
pub(crate) struct Rival(Party);

impl Rival {
    pub(crate) fn new(servers: &str) -> Self {
        let backend = ZooKeeperBackend::open(&url(servers).parse().expect("a URL")).expect("good settings");
        let retry = RetryPolicy::forever(Duration::from_millis(50), Duration::from_millis(500));
        Self(Party::over(Arc::new(backend), retry))
    }

    /// Queues for a lock; `look` is called first thing when it is granted.
    pub(crate) fn contend<T: Send + 'static>(
        &self,
        queue: &str,
        look: impl FnOnce(BootInstant) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let mutex = self.0.keeper.mutex(queue).expect("a name");
        tokio::spawn(async move {
            let guard = mutex.lock().await.expect("the majority serves");
            let seen = look(now());
            guard.release().await.expect("the majority serves");
            seen
        })
    }

    /// Waits until it stands in this many queues, right behind the holder.
    pub(crate) async fn queued(&self, count: usize) {
        self.0.journal.until_count("queueing", count, is_joined).await;
        let places: Vec<_> = self.0.journal.events().into_iter().filter_map(ahead).collect();
        assert!(places.iter().all(|ahead| *ahead == 1), "each lock has one holder and no other waiter: {places:?}");
    }

    pub(crate) async fn close(self) {
        soon("closing", self.0.keeper.close()).await.expect("the majority serves");
    }
}

/// How many stood ahead in a queue that was joined.
fn ahead(event: Event) -> Option<usize> {
    match event {
        Event::Joined { ahead, .. } => Some(ahead),
        _ => None,
    }
}
