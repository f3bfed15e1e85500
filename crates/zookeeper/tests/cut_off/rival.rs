//! The second contender: the library, connected to the servers that keep their quorum.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_recipes::retry::RetryPolicy;
use lockkeeper_recipes::{Event, Keeper, Observer};
use lockkeeper_zookeeper::ZooKeeperBackend;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::ledger::now;
use crate::plan::{SESSION_TIMEOUT, TICK};

/// The URL of these servers, with the settings of this test.
pub(crate) fn url(servers: &str) -> String {
    let (timeout, tick) = (SESSION_TIMEOUT.as_millis(), TICK.as_millis());
    format!("zk://{servers}?session_timeout={timeout}ms&tick={tick}ms")
}

/// A client that waits for the locks that the holders have.
pub(crate) struct Rival {
    keeper: Keeper,
    joined: Arc<Joined>,
}

impl Rival {
    pub(crate) fn new(servers: &str) -> Self {
        let backend = ZooKeeperBackend::open(&url(servers).parse().expect("a URL")).expect("good settings");
        let joined = Arc::new(Joined { places: watch::Sender::new(Vec::new()) });
        let keeper = Keeper::builder(Arc::new(backend))
            .observer(joined.clone())
            .retry(RetryPolicy::forever(Duration::from_millis(50), Duration::from_millis(500)))
            .build();
        Self { keeper, joined }
    }

    /// Queues for a lock; `look` is called first thing when it is granted.
    pub(crate) fn contend<T: Send + 'static>(
        &self,
        queue: &str,
        look: impl FnOnce(BootInstant) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let mutex = self.keeper.mutex(queue).expect("a name");
        tokio::spawn(async move {
            let guard = mutex.lock().await.expect("the majority serves");
            let seen = look(now());
            guard.release().await.expect("the majority serves");
            seen
        })
    }

    /// Waits until it stands in this many queues, right behind the holder.
    pub(crate) async fn queued(&self, count: usize) {
        let mut places = self.joined.places.subscribe();
        let places = soon("queueing", places.wait_for(|places| places.len() >= count)).await.expect("ours lives");
        assert!(places.iter().all(|ahead| *ahead == 1), "each lock has one holder and no other waiter: {places:?}");
    }

    pub(crate) async fn close(self) {
        soon("closing", self.keeper.close()).await.expect("the majority serves");
    }
}

/// Remembers how many stood ahead in each queue that was joined.
#[derive(Debug)]
struct Joined {
    places: watch::Sender<Vec<usize>>,
}

impl Observer for Joined {
    fn on_event(&self, event: &Event) {
        if let Event::Joined { ahead, .. } = event {
            self.places.send_modify(|places| places.push(*ahead));
        }
    }
}
