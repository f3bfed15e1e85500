//! A fault at each await of a recipe: every request suspends once, the future is polled a given number of times, and
//! then it is dropped, or its session ends, or a reply is lost, or its contender is removed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper_conformance::{Pace, Tap, soon};
use lockkeeper_core::clock::TestClock;
use lockkeeper_core::{
    Backend, ContenderInfo, ErrorKind, Expected, LossReason, Mode, Operation, Part, QueueName, Request, Result,
    SafeUntil, Session,
};
use lockkeeper_recipes::memory::{MemoryService, Testing};
use lockkeeper_recipes::{Keeper, Permit, Permits};

/// More polls than any of these futures takes.
const POLLS_MAX: usize = 60;

/// One keeper whose requests all suspend, another one, and an operator.
struct Scene {
    keeper: Keeper,
    testing: Testing,
    rival: Keeper,
    onlooker: Arc<dyn Backend>,
    operator: Arc<dyn Session>,
    queue: QueueName,
}

impl Scene {
    async fn set() -> Self {
        let clock = Arc::new(TestClock::new());
        let service = MemoryService::new(clock.clone());
        let (backend, testing) = service.client();
        let keeper = Keeper::builder(Arc::new(Tap::new(backend, Pace::YieldOnce))).clock(clock).build();
        let (onlooker, _) = service.client();
        let operator = onlooker.session().await.unwrap();
        Self { keeper, testing, rival: service.keeper(), onlooker, operator, queue: QueueName::new("door").unwrap() }
    }

    async fn shown(&self) -> Vec<ContenderInfo> {
        self.onlooker.admin().inspect(&self.queue).await.unwrap()
    }

    async fn acquire(&self, wanted: u32) -> Result<Vec<Permit>> {
        self.keeper.semaphore("door", 2).unwrap().acquire_many(wanted).await
    }

    /// Reads the bound that is noted.
    async fn bound(&self) -> Option<Arc<[u8]>> {
        let permits = self.queue.with_part(Part::Permits);
        let value = match self.operator.values().get(&permits).await {
            // The request whose reply is to be lost was not sent until now.
            Err(_) => self.operator.values().get(&permits).await,
            value => value,
        };
        value.unwrap().map(|value| value.bytes)
    }

    /// Releases what is held and checks that nothing is left, after any earlier fault.
    async fn check_left(&self, held: impl Sized) {
        drop(held);
        tokio::task::yield_now().await;
        let left: Vec<_> = self.shown().await.into_iter().map(|info| (info.mode, info.id)).collect();
        assert_eq!(left, []);
    }
}

type Running<Output> = Pin<Box<dyn Future<Output = Output>>>;

/// Polls at most the given number of times; a future that is ready must not be polled again. Between the polls, the
/// task that opens the session runs.
#[expect(clippy::future_not_send, reason = "what is polled stays on the test's own thread")]
async fn poll<Output>(future: &mut Running<Output>, polls: usize) -> Option<Output> {
    for _ in 0..polls {
        tokio::task::yield_now().await;
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
    }
    None
}

/// Performs a fault on a semaphore's contender.
async fn disturb(scene: &Scene, how: &Disturbance) {
    match how {
        Disturbance::Expire => scene.testing.expire_session(),
        Disturbance::Lose(operation) => scene.testing.drop_next_reply(*operation),
        Disturbance::CutAndHeal => {
            scene.testing.cut(SafeUntil::ProcessEnd);
            tokio::time::sleep(Duration::from_secs(3)).await;
            scene.testing.heal();
        }
        Disturbance::ForgetBound => {
            let permits = scene.queue.with_part(Part::Permits);
            // The service removes the value of an empty queue; that of a queue with permits stays.
            if scene.shown().await.iter().all(|info| info.mode != Mode::Permit) {
                scene.operator.values().set(&permits, Expected::Any, None).await.unwrap();
            }
        }
    }
}

#[derive(Debug)]
enum Disturbance {
    Expire,
    Lose(Operation),
    CutAndHeal,
    ForgetBound,
}

/// In the end both permits are held, and no others, and the agreed bound is noted.
#[tokio::test(start_paused = true)]
async fn after_a_fault_at_any_await_the_permits_are_held_once_and_their_bound_is_noted() {
    let disturbances = [
        Disturbance::Expire,
        Disturbance::Lose(Operation::Join),
        Disturbance::Lose(Operation::View),
        Disturbance::Lose(Operation::Value),
        Disturbance::Lose(Operation::Wait),
        Disturbance::CutAndHeal,
        Disturbance::ForgetBound,
    ];
    for how in disturbances {
        for contended in [false, true] {
            let mut polls = 0;
            loop {
                let scene = Arc::new(Scene::set().await);
                let rivals = scene.rival.semaphore("door", 2).unwrap();
                let taken = if contended { Some(rivals.acquire().await.unwrap()) } else { None };
                let asking = scene.clone();
                let mut future: Running<_> = Box::pin(async move { asking.acquire(2).await });
                if let Some(permits) = poll(&mut future, polls).await {
                    assert!(!contended, "{how:?}: granted while one is taken");
                    scene.check_left((permits, future)).await;
                    break;
                }
                disturb(&scene, &how).await;
                let stays_pending = contended && poll(&mut future, 1).await.is_none();
                drop(taken);
                let permits = soon("the answer", future).await.unwrap();
                assert!(stays_pending || !contended, "{how:?} after {polls} polls");
                assert!(permits.iter().all(|permit| permit.hold().is_held()), "{how:?} after {polls} polls");
                let shown: Vec<_> = scene.shown().await.into_iter().map(|info| info.id).collect();
                let held: Vec<_> = permits.iter().map(|permit| permit.hold().contender().clone()).collect();
                assert_eq!(shown, held, "{how:?} after {polls} polls");
                assert_eq!(scene.bound().await.as_deref(), Some(&b"2"[..]), "{how:?} after {polls} polls");
                scene.check_left(permits).await;
                polls += 1;
                if contended && polls == POLLS_MAX / 2 {
                    break;
                }
                assert!(polls < POLLS_MAX, "{how:?}: it does not end");
            }
        }
    }
}

/// A waiter for permits that is removed is told so, and has taken nothing; or has the permits already.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_loses_its_place_at_any_await_holds_nothing_or_all() {
    let mut removed = 0;
    for polls in 0..POLLS_MAX {
        let scene = Arc::new(Scene::set().await);
        let asking = scene.clone();
        let mut future: Running<_> = Box::pin(async move { asking.acquire(2).await });
        if let Some(permits) = poll(&mut future, polls).await {
            scene.check_left((permits, future)).await;
            assert!(removed > 0, "it was never among the waiters");
            return;
        }
        let shown = scene.shown().await;
        let has_permits = shown.iter().any(|info| info.mode == Mode::Permit);
        let waiting: Vec<_> = shown.into_iter().filter(|info| info.mode == Mode::Acquire).collect();
        let has_waited = !waiting.is_empty();
        for info in waiting {
            let request = Request::Break { token: info.token.unwrap() };
            assert!(scene.operator.request(&scene.queue.with_part(Part::Waiters), &info.id, request).await.unwrap());
            removed += 1;
        }
        match soon("the answer", future).await {
            Ok(permits) => {
                assert!(has_permits || !has_waited, "after {polls} polls it takes some without its place");
                assert!(permits.iter().all(|permit| permit.hold().is_held()));
                scene.check_left(permits).await;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Removed);
                scene.check_left(()).await;
            }
        }
    }
    panic!("it does not end");
}

/// A counter that is lowered at any await applies to all permits that are not taken by then.
#[tokio::test(start_paused = true)]
async fn permits_that_are_taken_after_the_counter_was_lowered_keep_to_it() {
    let counter = QueueName::new("how-many").unwrap();
    let set = |scene: &Scene, count: i32| {
        let bytes: Arc<[u8]> = Arc::new(count.to_be_bytes());
        scene.operator.values().set(&counter, Expected::Any, Some(bytes))
    };
    let mut waited = 0;
    for polls in 0..POLLS_MAX {
        let scene = Scene::set().await;
        set(&scene, 2).await.unwrap();
        let semaphore = scene.keeper.semaphore("door", Permits::Counter(counter.as_str().to_owned())).unwrap();
        let mut future: Running<_> = Box::pin(async move { semaphore.acquire_many(2).await });
        if let Some(permits) = poll(&mut future, polls).await {
            scene.check_left((permits, future)).await;
            assert!(waited > 0, "the counter was never heeded");
            return;
        }
        set(&scene, 1).await.unwrap();
        let has_permits = scene.shown().await.iter().any(|info| info.mode == Mode::Permit);
        let permits = match poll(&mut future, POLLS_MAX).await {
            Some(permits) => {
                assert!(has_permits, "after {polls} polls more are taken than there are");
                permits.unwrap()
            }
            None => {
                assert!(
                    scene.shown().await.iter().all(|info| info.mode == Mode::Acquire),
                    "none is kept while it waits"
                );
                waited += 1;
                set(&scene, 2).await.unwrap();
                soon("the answer", future).await.unwrap()
            }
        };
        scene.check_left(permits).await;
    }
    panic!("it does not end");
}

/// For a writer that was lost, the loss is reported, and not the failures that follow from it.
#[tokio::test(start_paused = true)]
async fn a_writer_that_was_lost_cannot_go_on_as_a_reader_and_is_told_why() {
    let clock = Arc::new(TestClock::new());
    let service = MemoryService::new(clock);
    let keeper = service.keeper();
    let rw_lock = keeper.rw_lock("door").unwrap();
    let write = rw_lock.write().await.unwrap();
    keeper.testing().unwrap().remove_contender("door", write.hold().contender()).unwrap();
    assert_eq!(write.downgrade().await.unwrap_err().kind(), ErrorKind::Lost(LossReason::Removed));
    let write = rw_lock.write().await.unwrap();
    keeper.testing().unwrap().expire_session();
    assert_eq!(write.downgrade().await.unwrap_err().kind(), ErrorKind::Lost(LossReason::Expired));
    assert_eq!(keeper.contenders("door").await.unwrap().len(), 0);
}
