//! Openings that outlive their callers, fail for all of them at once, and end with their keeper or their runtime.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{
    AdminBackend, Advice, Backend, BoxFuture, Capabilities, Error, ErrorKind, Operation, Result, Session,
};

use crate::Keeper;
use crate::keeper::memory::MemoryService;

/// How long an opening takes.
const HANDSHAKE: Duration = Duration::from_millis(400);

/// A memory service whose sessions take a while to open, or are refused after a while.
struct SlowBackend {
    memory: Arc<dyn Backend>,
    /// How long each opening takes in turn; one without a time never ends.
    takes: StdMutex<Vec<Option<Duration>>>,
    refuses: bool,
    openings: AtomicU32,
    /// Counts the openings that were dropped before they had ended.
    given_up: Arc<AtomicU32>,
}

/// Counts itself if it is dropped before its opening is done.
struct Unfinished(Option<Arc<AtomicU32>>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(given_up) = &self.0 {
            given_up.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl SlowBackend {
    fn new(takes: &[Option<Duration>]) -> Self {
        let (memory, _) = MemoryService::new(Arc::new(TestClock::new())).client();
        let takes = StdMutex::new(takes.to_vec());
        Self { memory, takes, refuses: false, openings: AtomicU32::new(0), given_up: Arc::default() }
    }

    fn openings(&self) -> u32 {
        self.openings.load(Ordering::SeqCst)
    }

    fn given_up(&self) -> u32 {
        self.given_up.load(Ordering::SeqCst)
    }
}

impl Backend for SlowBackend {
    fn service(&self) -> String {
        "slow:".to_owned()
    }

    fn capabilities(&self) -> &Capabilities {
        self.memory.capabilities()
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        self.openings.fetch_add(1, Ordering::SeqCst);
        let mut takes = self.takes.lock().unwrap();
        let takes = if takes.len() > 1 { takes.remove(0) } else { takes[0] };
        let (opened, refuses) = (self.memory.session(), self.refuses);
        let unfinished = Unfinished(Some(self.given_up.clone()));
        Box::pin(async move {
            let mut unfinished = unfinished;
            match takes {
                Some(takes) => tokio::time::sleep(takes).await,
                None => std::future::pending().await,
            }
            drop(unfinished.0.take());
            match refuses {
                true => Err(Error::transient(ErrorKind::ConnectionLost, Operation::Connect, "refused")),
                false => opened.await,
            }
        })
    }

    fn admin(&self) -> &dyn AdminBackend {
        self.memory.admin()
    }
}

impl std::fmt::Debug for SlowBackend {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SlowBackend")
    }
}

fn keeper(backend: &Arc<SlowBackend>) -> Keeper {
    Keeper::builder(backend.clone()).clock(Arc::new(TestClock::new())).build()
}

#[tokio::test(start_paused = true)]
async fn an_opening_outlives_the_caller_that_asked_first_and_serves_the_next_one() {
    let backend = Arc::new(SlowBackend::new(&[Some(HANDSHAKE)]));
    let mutex = keeper(&backend).mutex("door").unwrap();
    let wait = HANDSHAKE * 3 / 4;
    let error = mutex.lock_timeout(wait).await.unwrap_err();
    assert_eq!((error.kind(), error.advice()), (ErrorKind::ConnectionLost, Advice::Transient));
    for _ in 0..3 {
        let guard = mutex.lock_timeout(wait).await.unwrap().expect("the session is open by now");
        guard.release().await.unwrap();
    }
    assert_eq!((backend.openings(), backend.given_up()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn all_callers_that_wait_for_an_opening_get_its_failure_at_once_and_a_later_caller_begins_another() {
    let refusing = SlowBackend { refuses: true, ..SlowBackend::new(&[Some(HANDSHAKE)]) };
    let backend = Arc::new(refusing);
    let keeper = keeper(&backend);
    let clock = TestClock::new();
    let begun = clock.now();
    let tries: Vec<_> = (0..8)
        .map(|_| {
            let mutex = keeper.mutex("door").unwrap();
            tokio::spawn(async move { mutex.try_lock().await })
        })
        .collect();
    for tried in tries {
        let error = tried.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "door: connect: refused");
    }
    assert_eq!(clock.now().saturating_duration_since(begun), HANDSHAKE);
    assert_eq!(backend.openings(), 1);
    keeper.mutex("door").unwrap().try_lock().await.unwrap_err();
    assert_eq!(backend.openings(), 2);
}

#[tokio::test(start_paused = true)]
async fn closing_a_keeper_ends_its_opening_and_tells_the_callers_that_wait_for_it() {
    let backend = Arc::new(SlowBackend::new(&[None]));
    let keeper = keeper(&backend);
    let waiting = tokio::spawn({
        let keeper = keeper.clone();
        async move { keeper.notice().await }
    });
    tokio::time::sleep(HANDSHAKE).await;
    assert_eq!(backend.given_up(), 0);
    keeper.close().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!((backend.openings(), backend.given_up()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_opening_ends_with_the_last_user_of_its_keeper() {
    let backend = Arc::new(SlowBackend::new(&[None]));
    let mutex = keeper(&backend).mutex("door").unwrap();
    mutex.lock_timeout(HANDSHAKE).await.unwrap_err();
    tokio::time::sleep(HANDSHAKE).await;
    assert_eq!(backend.given_up(), 0);
    drop(mutex);
    tokio::time::sleep(HANDSHAKE).await;
    assert_eq!(backend.given_up(), 1);
}

#[test]
fn a_caller_that_waits_for_an_opening_whose_runtime_ends_begins_another_one_in_its_own() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let backend = Arc::new(second.block_on(async { SlowBackend::new(&[None, Some(HANDSHAKE)]) }));
    let mutex = Keeper::new(backend.clone()).mutex("door").unwrap();
    first.block_on(mutex.lock_timeout(Duration::from_millis(1))).unwrap_err();
    let waiting = second.spawn(async move { mutex.lock().await });
    second.block_on(tokio::task::yield_now());
    assert_eq!((backend.openings(), backend.given_up()), (1, 0));
    drop(first);
    assert!(second.block_on(waiting).unwrap().unwrap().hold().is_held());
    assert_eq!((backend.openings(), backend.given_up()), (2, 1));
}
