//! A collector over a memory service, which tells an onlooker nothing: it looks again and again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper::backend::{AdminBackend, Backend, BoxFuture, Session};
use lockkeeper::clock::Clock;
use lockkeeper::follow::{FollowEvent, Follower, Following, LockSnapshot, Scope};
use lockkeeper::testing::{MemoryService, TestClock};
use lockkeeper::{Capabilities, ContenderInfo, Keeper, QueueName, Result};
use lockkeeper_conformance::until;
use lockkeeper_monitor::{CollectionMode, Collector, DeadlockVerdict, MonitorState, ServiceFreshness};
use tokio::sync::mpsc;

struct Scene {
    service: MemoryService,
    collector: Arc<Collector>,
}

impl Scene {
    /// Collects the locks of a service from now on.
    fn begin() -> Self {
        Self::over(MemoryService::keeper)
    }

    /// The same over a keeper of it.
    fn over(keeper: impl FnOnce(&MemoryService) -> Keeper) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(TestClock::new());
        let service = MemoryService::new(Arc::clone(&clock));
        let collector = Arc::new(Collector::new(keeper(&service), clock, Scope::default()));
        let running = Arc::clone(&collector);
        tokio::spawn(async move { running.run().await });
        Self { service, collector }
    }

    #[expect(clippy::future_not_send, reason = "a test waits in its own task")]
    async fn until(&self, what: &str, is_so: impl Fn(&MonitorState) -> bool) {
        until(what, async || self.collector.read(&is_so)).await;
    }
}

/// A backend which says that it looks, and tells what the test has it tell.
#[derive(Debug)]
struct Looking {
    capabilities: Capabilities,
    told: Mutex<Option<mpsc::Receiver<FollowEvent>>>,
}

impl Backend for Looking {
    fn service(&self) -> String {
        "looking:".to_owned()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        Box::pin(std::future::pending())
    }

    fn admin(&self) -> &dyn AdminBackend {
        self
    }
}

impl AdminBackend for Looking {
    fn inspect(&self, _queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        Box::pin(std::future::pending())
    }

    fn queues(&self, _prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        Box::pin(std::future::pending())
    }

    fn follow(&self, _scope: &Scope) -> Option<Follower> {
        let mut told = self.told.lock().unwrap().take()?;
        Some(Follower::run(|telling| async move {
            while let Some(next) = told.recv().await {
                telling.tell(next).await;
            }
        }))
    }
}

fn shape(state: &MonitorState, lock: &str) -> Option<(usize, usize)> {
    let lock = state.model.locks().get(&QueueName::new(lock).unwrap())?;
    Some((lock.holders().count(), lock.waiters().count()))
}

#[tokio::test(start_paused = true)]
async fn a_deadlock_of_two_tasks_is_known_after_two_looks_and_goes_when_one_gives_up() {
    let scene = Scene::begin();
    let keeper = scene.service.keeper();
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let cross = |first: &str, second: &str| {
        let (first, second) = (keeper.mutex(first).unwrap(), keeper.mutex(second).unwrap());
        let barrier = Arc::clone(&barrier);
        tokio::spawn(async move {
            let _outer = first.lock().await.unwrap();
            barrier.wait().await;
            let _inner = second.lock().await.unwrap();
        })
    };
    let (one, other) = (cross("a", "b"), cross("b", "a"));
    let known = |state: &MonitorState| state.deadlocks.iter().any(|judged| judged.verdict == DeadlockVerdict::Known);
    scene.until("the deadlock", known).await;
    assert!(!one.is_finished());
    one.abort();
    scene.until("its end", |state| state.deadlocks.is_empty()).await;
    other.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_backend_tells_that_looks_is_as_old_as_its_last_look() {
    let (tell, told) = mpsc::channel(1);
    let scene = Scene::over(|service| {
        let capabilities = service.keeper().capabilities().followed(Following::Looks);
        Keeper::new(Arc::new(Looking { capabilities, told: Mutex::new(Some(told)) }))
    });
    let guard = scene.service.keeper().mutex("door").unwrap().lock().await.unwrap();
    let door = QueueName::new("door").unwrap();
    let contenders = scene.service.keeper().contenders("door").await.unwrap();
    let began = scene.collector.now().boot;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let pause = Duration::from_secs(7);
    for next in [
        FollowEvent::All(vec![LockSnapshot::new(door.clone(), contenders.into_iter().map(Arc::new).collect())]),
        FollowEvent::Looked { began, pause, silent: Vec::new() },
    ] {
        tell.send(next).await.unwrap();
    }
    scene.until("the look", |state| state.way == CollectionMode::Looks(pause)).await;
    let age = |state: &MonitorState| state.freshness.age(scene.collector.now().boot);
    assert!(scene.collector.read(age) >= Some(Duration::from_secs(2)));
    assert!(scene.collector.read(|state| shape(state, "door") == Some((1, 0))));
    let began = scene.collector.now().boot;
    tell.send(FollowEvent::Changed(vec![LockSnapshot::new(door, Vec::new())])).await.unwrap();
    tell.send(FollowEvent::Looked { began, pause, silent: Vec::new() }).await.unwrap();
    let is_young = |state: &MonitorState| {
        let is_young = matches!(state.freshness, ServiceFreshness::Fresh(Some(seen)) if seen == began);
        assert_eq!(
            shape(state, "door").is_none(),
            is_young,
            "what a look has seen is as old as that look, at any moment"
        );
        is_young
    };
    scene.until("the next look", is_young).await;
    guard.release().await.unwrap();
}
