//! A collector over a memory service, which tells an onlooker nothing: it looks again and again.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::clock::Clock;
use lockkeeper::follow::Scope;
use lockkeeper::testing::{MemoryService, TestClock};
use lockkeeper::{Keeper, QueueName};
use lockkeeper_conformance::until;
use lockkeeper_monitor::{Collector, Freshness, State, Verdict, Way};

struct Scene {
    service: MemoryService,
    collector: Arc<Collector>,
}

impl Scene {
    /// Collects the locks of a service from now on.
    fn begin() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(TestClock::new());
        let service = MemoryService::new(Arc::clone(&clock));
        let collector = Arc::new(Collector::new(service.keeper(), clock, Scope::default()));
        let running = Arc::clone(&collector);
        tokio::spawn(async move { running.run().await });
        Self { service, collector }
    }

    #[expect(clippy::future_not_send, reason = "a test waits in its own task")]
    async fn until(&self, what: &str, is_so: impl Fn(&State) -> bool) {
        until(what, async || self.collector.read(&is_so)).await;
    }
}

fn shape(state: &State, lock: &str) -> Option<(usize, usize)> {
    let lock = state.model.locks().get(&QueueName::new(lock).unwrap())?;
    Some((lock.holders().count(), lock.waiters().count()))
}

fn queue_up(keeper: &Keeper, lock: &'static str) -> tokio::task::JoinHandle<()> {
    let mutex = keeper.mutex(lock).unwrap();
    tokio::spawn(async move {
        let _guard = mutex.lock().await.unwrap();
        std::future::pending::<()>().await;
    })
}

#[tokio::test(start_paused = true)]
async fn holders_and_waiters_are_known_as_they_come_and_go() {
    let scene = Scene::begin();
    let (ann, bob) = (scene.service.keeper(), scene.service.keeper());
    scene.until("the first look", |state| matches!(state.freshness, Freshness::Fresh(_))).await;
    assert_eq!(scene.collector.read(|state| state.way), Way::Looks(Duration::from_secs(1)));
    let guard = ann.mutex("door").unwrap().lock().await.unwrap();
    let waiting = queue_up(&bob, "door");
    scene.until("both", |state| shape(state, "door") == Some((1, 1))).await;
    guard.release().await.unwrap();
    scene.until("the next holder", |state| shape(state, "door") == Some((1, 0))).await;
    let kinds = scene
        .collector
        .read(|state| state.model.events_from(0).map(|event| event.kind.as_str()).collect::<Vec<_>>().join(" "));
    assert_eq!(kinds, "granted joined left granted");
    waiting.abort();
    scene.until("the end", |state| shape(state, "door").is_none()).await;
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
    let known = |state: &State| state.deadlocks.iter().any(|judged| judged.verdict == Verdict::Known);
    scene.until("the deadlock", known).await;
    assert!(!one.is_finished());
    one.abort();
    scene.until("its end", |state| state.deadlocks.is_empty()).await;
    other.await.unwrap();
}
