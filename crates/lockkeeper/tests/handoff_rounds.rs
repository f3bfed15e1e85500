//! Hand-off in long rounds: tasks that also give up, sessions that end all the time, and another client.

use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use lockkeeper::clock::SystemClock;
use lockkeeper::retry::RetryPolicy;
use lockkeeper::testing::MemoryService;
use lockkeeper::{Error, FencingToken, Handoff, Hold, Keeper, Mutex, MutexGuard};
use lockkeeper_faults::long;
use lockkeeper_faults::wait::PATIENCE;
use tokio::task::JoinSet;
use tokio::time::{self, Instant};

/// How long each policy is played.
const TIME_LONG: Duration = Duration::from_secs(150);

/// How often all sessions of the tasks' keeper end.
const SESSION_ENDS_EVERY: Duration = Duration::from_millis(2);

/// How long the end may take: longer than any pause of a call that tries again.
const END_MAX: Duration = PATIENCE;

const TASKS: usize = 8;

const LOCK: &str = "door";

/// What the holders of one lock write down.
#[derive(Debug, Default)]
struct Book {
    /// Who holds it, as the last one that was granted it has written.
    holder: Option<Hold>,
    last: Option<FencingToken>,
    grants: u64,
}

/// Notes a grant, which must be the only one that stands, and greater than all before that were still held when they
/// were noted.
fn note(book: &StdMutex<Book>, guard: &MutexGuard) {
    let (hold, token) = (guard.hold().clone(), guard.fencing_token());
    let mut book = book.lock().unwrap();
    let was_held = book.holder.as_ref().is_some_and(Hold::is_held);
    if hold.is_held() {
        assert!(!was_held, "{token} beside {:?}", book.holder);
        assert!(Some(token) > book.last, "{token} after {:?}", book.last);
        book.last = Some(token);
        book.holder = Some(hold);
        book.grants += 1;
    }
}

/// Locks again and again, and gives up now and then after a few polls.
async fn contend(mutex: Mutex, book: Arc<StdMutex<Book>>, number: usize, ends_at: Instant) {
    for round in number.. {
        if Instant::now() >= ends_at {
            return;
        }
        let granted: Option<Result<MutexGuard, Error>> = if round % 3 == 0 {
            tokio::select! {
                biased;
                granted = mutex.lock() => Some(granted),
                () = yield_often(round % 7) => None,
            }
        } else {
            Some(mutex.lock().await)
        };
        match granted {
            Some(Ok(guard)) => {
                note(&book, &guard);
                yield_often(round % 2).await;
            }
            // The session of its place ended once too often for its policy.
            Some(Err(error)) => assert!(error.is_transient(), "{error}"),
            None => {}
        }
    }
}

async fn yield_often(times: usize) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

/// Ends the sessions of a keeper until the time is over.
async fn end_sessions(keeper: Keeper, ends_at: Instant) {
    let mut every = time::interval(SESSION_ENDS_EVERY);
    while Instant::now() < ends_at {
        every.tick().await;
        keeper.testing().expect("it is one of a memory service").expire_session();
    }
}

async fn play(handoff: Handoff) {
    let service = MemoryService::new(Arc::new(SystemClock));
    let retry = RetryPolicy::until_elapsed(Duration::from_secs(30), Duration::from_millis(1));
    let keeper = service.keeper_builder().handoff(handoff).retry(retry).build();
    let (rival, onlooker) = (service.keeper(), service.keeper());
    let book = Arc::new(StdMutex::new(Book::default()));
    let ends_at = Instant::now() + long::time(TIME_LONG);
    let mut tasks = JoinSet::new();
    tasks.spawn(end_sessions(keeper.clone(), ends_at));
    for number in 0..TASKS {
        let mutex = keeper.mutex(LOCK).unwrap();
        tasks.spawn(contend(mutex, book.clone(), number, ends_at));
    }
    tasks.spawn(contend(rival.mutex(LOCK).unwrap(), book.clone(), 1, ends_at));
    time::timeout_at(ends_at + END_MAX, tasks.join_all()).await.expect("no call waits in vain");
    assert_eq!(keeper.local_waiters(LOCK).unwrap(), 0);
    keeper.close().await.unwrap();
    drop(keeper);
    let last = time::timeout(END_MAX, rival.mutex(LOCK).unwrap().lock_owned()).await;
    last.expect("the place is given back").unwrap().release().await.unwrap();
    assert!(onlooker.contenders(LOCK).await.unwrap().is_empty());
    eprintln!("{handoff:?}: {} grants", book.lock().unwrap().grants);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_local_handoff_nothing_is_doubled_or_left_though_sessions_end_and_tasks_give_up() {
    play(Handoff::local()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_sticky_handoff_nothing_is_doubled_or_left_though_sessions_end_and_tasks_give_up() {
    play(Handoff::sticky()).await;
}
