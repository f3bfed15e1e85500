//! Locks of an owner, several locks at once and futures that own their lock, dropped at every await point: no contender
//! is left, and every lock can be locked again.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{Pace, Tap, at_most};
use lockkeeper_core::clock::TestClock;
use lockkeeper_core::{Result, Wait};
use lockkeeper_recipes::memory::MemoryService;
use lockkeeper_recipes::{Keeper, Member, MultiLock, OwnerKey};

/// More await points than any attempt has, so that an attempt that never completes fails and does not hang.
const AWAIT_POINTS_MAX: usize = 200;

/// How long a waiter may wait: it is granted or dropped long before.
const LONG: Duration = Duration::from_secs(3600);

/// A service, and a client of it that yields in every call.
fn service() -> (Keeper, impl Fn() -> Keeper) {
    let clock = Arc::new(TestClock::new());
    let service = MemoryService::new(clock.clone());
    let onlooker = service.keeper();
    let yielding = move || {
        let tap = Tap::new(service.client().0, Pace::YieldOnce);
        Keeper::builder(Arc::new(tap)).clock(clock.clone()).build()
    };
    (onlooker, yielding)
}

/// Makes the attempt again and again, dropped after 0, 1, 2, … polls, until it completes; checks after each that `left`
/// contenders stand in the queues of these names. Returns at how many polls it was dropped.
async fn drop_at_every_await_point<Output>(
    onlooker: &Keeper,
    names: &[&str],
    left: usize,
    mut attempt: impl AsyncFnMut() -> Output,
) -> usize {
    for polls in 0..AWAIT_POINTS_MAX {
        let done = at_most(polls, attempt()).await.is_some();
        let mut contenders = 0;
        for name in names {
            contenders += onlooker.contenders(name).await.unwrap().len();
        }
        assert_eq!(contenders, left, "dropped after {polls} polls");
        if done {
            return polls;
        }
    }
    panic!("it never completes");
}

#[tokio::test(start_paused = true)]
async fn an_owners_lock_dropped_at_every_await_point_leaves_nothing_and_can_be_locked_again() {
    let (onlooker, yielding) = service();
    let keeper = yielding();
    let (mutex, book) = (keeper.mutex("door").unwrap(), keeper.rw_lock("book").unwrap());
    let owner = OwnerKey::new();
    let names = ["door", "book"];
    let polls = drop_at_every_await_point(&onlooker, &names, 0, async || {
        drop(owner.lock(&mutex).await.unwrap());
        drop(owner.write_within(&book, Wait::No).await.unwrap().expect("free"));
        drop(owner.read_within(&book, Wait::AtMost(LONG)).await.unwrap().expect("free"));
    })
    .await;
    // Joining; looking and joining; joining.
    assert!(polls >= 4, "{polls}");
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_inside_of_a_hold_and_dropped_at_every_await_point_leaves_that_hold_alone() {
    let (onlooker, yielding) = service();
    let keeper = yielding();
    let book = keeper.rw_lock("book").unwrap();
    let owner = OwnerKey::new();
    let write = owner.write(&book).await.unwrap();
    let polls = drop_at_every_await_point(&onlooker, &["book"], 1, async || {
        drop(owner.read(&book).await.unwrap());
        owner.read_within(&book, Wait::No).await.unwrap().expect("it is ours").release().await.unwrap();
        owner.write(&book).await.unwrap().release().await.unwrap();
    })
    .await;
    assert!(polls >= 3, "{polls}");
    assert!(write.hold().is_held());
}

#[tokio::test(start_paused = true)]
async fn nested_runs_dropped_at_every_await_point_leave_nothing() {
    let (onlooker, yielding) = service();
    let keeper = yielding();
    let (mutex, book) = (keeper.mutex("door").unwrap(), keeper.rw_lock("book").unwrap());
    let polls = drop_at_every_await_point(&onlooker, &["door", "book"], 0, async || {
        let inner = async |_| mutex.run(|_| book.run_write(|_| book.run_read(|_| tokio::task::yield_now()))).await;
        mutex.run(inner).await.unwrap().unwrap().unwrap().unwrap();
    })
    .await;
    assert!(polls >= 4, "{polls}");
}

#[tokio::test(start_paused = true)]
async fn several_locks_dropped_at_every_await_point_leave_nothing() {
    let (onlooker, yielding) = service();
    let (ann, bob) = (yielding(), yielding());
    let members = || {
        let [a, c] = ["a", "c"].map(|name| ann.mutex(name).unwrap());
        [c.into(), Member::write(bob.rw_lock("b").unwrap()), a.into()]
    };
    let locks = MultiLock::new(members()).unwrap();
    let names = ["a", "b", "c"];
    let waits = drop_at_every_await_point(&onlooker, &names, 0, async || locks.lock().await.unwrap().release().await);
    let waits = waits.await;
    assert!(waits >= 3, "{waits}");
    let tries = drop_at_every_await_point(&onlooker, &names, 0, async || drop(locks.try_lock().await.unwrap()));
    assert!(tries.await > waits, "it looks before it joins");
    let last = onlooker.mutex("c").unwrap().lock().await.unwrap();
    // One contender is left each time: the holder that is waited for.
    let vain = drop_at_every_await_point(&onlooker, &names, 1, async || {
        assert!(locks.lock_timeout(LONG).await.unwrap().is_none());
    });
    assert!(vain.await >= 5, "two are taken, and the third is waited for");
    last.release().await.unwrap();
}

/// What a task can be spawned with: the type says `Send` and, by its default, `'static`.
type Spawnable = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Every wait whose future owns its lock, on names of this keeper, with no handle of the lock beside the future.
fn owned_waits(keeper: &Keeper) -> [(&'static str, Spawnable); 5] {
    fn spawnable<Granted: Send>(wait: impl Future<Output = Result<Granted>> + Send + 'static) -> Spawnable {
        Box::pin(async { wait.await.map(drop) })
    }
    let (door, book) = (keeper.mutex("door").unwrap(), keeper.rw_lock("book").unwrap());
    let seats = keeper.semaphore("seats", 2).unwrap();
    [
        ("door", spawnable(door.lock_owned())),
        ("book", spawnable(book.clone().read_owned())),
        ("book", spawnable(book.write_owned())),
        ("seats", spawnable(seats.clone().acquire_owned())),
        ("seats", spawnable(seats.acquire_many_owned(2))),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_future_that_owns_its_lock_is_granted_in_a_task_and_leaves_nothing_when_its_task_is_aborted() {
    let (onlooker, yielding) = service();
    let keeper = yielding();
    for (name, wait) in owned_waits(&keeper) {
        tokio::spawn(wait).await.unwrap().unwrap();
        assert!(onlooker.contenders(name).await.unwrap().is_empty(), "{name}");
    }
    let door = onlooker.mutex("door").unwrap().lock().await.unwrap();
    let book = onlooker.rw_lock("book").unwrap().write().await.unwrap();
    let seats = onlooker.semaphore("seats", 2).unwrap().acquire_many(2).await.unwrap();
    let held = seats.len();
    for (name, wait) in owned_waits(&keeper) {
        let held = if name == "seats" { held } else { 1 };
        let waiting = tokio::spawn(wait);
        while onlooker.contenders(name).await.unwrap().len() == held {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled(), "{name}: it waits");
        assert_eq!(onlooker.contenders(name).await.unwrap().len(), held, "{name}");
    }
    drop((door, book, seats));
}

#[tokio::test(start_paused = true)]
async fn a_future_that_owns_its_lock_dropped_at_every_await_point_leaves_nothing() {
    let (onlooker, yielding) = service();
    let keeper = yielding();
    for which in 0..owned_waits(&keeper).len() {
        let attempt = async || {
            let (_, wait) = owned_waits(&keeper).into_iter().nth(which).expect("it is one of them");
            wait.await.unwrap();
        };
        let polls = drop_at_every_await_point(&onlooker, &["door", "book", "seats"], 0, attempt).await;
        assert!(polls >= 2, "{which}: {polls}");
    }
}
