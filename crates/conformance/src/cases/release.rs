//! Giving the lock back: certain, wherever the guard ends; and work that is run under the lock.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_core::{ErrorKind, Liveness, LossReason, Modes};
use lockkeeper_recipes::MutexGuard;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{Party, answered, granted, parties, release};
use crate::waiting::{at_most, measured, soon};

/// How often the case polls a release that must not answer yet.
const LOOKS: usize = 20;

/// How soon a lock is free after its runtime has ended: long before a lasting session ends by itself.
const AT_ONCE: Duration = Duration::from_secs(10);

/// How often the end of a runtime may not be told in time.
const TRIES_MAX: u32 = 3;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("after a release was answered the lock is free for others at once", free_at_once).given_back(),
        Case::new("a guard that is dropped gives the lock to the next", dropped),
        Case::new("a release that is never polled is done all the same", never_polled),
        Case::new("a guard dropped on a thread without a runtime is released", on_a_plain_thread),
        Case::with("the end of a runtime frees its locks at once", Threads::One, ends_with_its_runtime),
        Case::with(
            "the end of a runtime of several threads frees its locks at once",
            Threads::Several,
            ends_with_its_runtime,
        ),
        Case::new("a guard dropped by a panicking task is released", in_a_panicking_task),
        Case::new("a guard dropped by a caught panic is released", in_a_caught_panic),
        Case::new("a guard outlives its keeper", outlives_its_keeper).given_back(),
        Case::new("a hold's clone never releases and knows of the release", hold_clones),
        Case::new("a release answers only when the service has heard of it", heard_by_the_service)
            .given_back()
            .needs(&[FaultKind::Pause]),
    ]
}

async fn free_at_once(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    for _ in 0..100 {
        release(ann.lock("door").await).await;
        let guard = bob.try_lock("door").await.expect("the lock is free");
        release(guard).await;
    }
}

/// Ends the guard in the given way. A waiter must then be granted, and nothing may be left.
async fn is_released_by(fixture: &dyn Fixture, end: impl AsyncFnOnce(MutexGuard)) {
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let hold = guard.hold().clone();
    let waiting = bob.queue_up("door").await;
    end(guard).await;
    let next = granted(waiting).await;
    assert!(!hold.is_held());
    assert_eq!(hold.lost().await, LossReason::Released);
    release(next).await;
}

async fn dropped(fixture: &dyn Fixture) {
    is_released_by(fixture, async |guard| drop(guard)).await;
}

async fn never_polled(fixture: &dyn Fixture) {
    is_released_by(fixture, async |guard| drop(guard.release())).await;
}

async fn on_a_plain_thread(fixture: &dyn Fixture) {
    is_released_by(fixture, async |guard| {
        let thread = std::thread::spawn(move || drop(guard));
        thread.join().expect("dropping a guard does not panic");
    })
    .await;
}

/// The threads of a runtime that ends.
#[derive(Clone, Copy, Debug)]
enum Threads {
    One,
    Several,
}

/// Where the guard is when its runtime ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum GuardIs {
    JustDropped,
    OfATask,
    Elsewhere,
}

/// The session itself was opened in the runtime that ends.
async fn ends_with_its_runtime(fixture: &dyn Fixture, threads: Threads) {
    for guard_is in [GuardIs::JustDropped, GuardIs::OfATask, GuardIs::Elsewhere] {
        let mut tries = 0;
        // A service is told for a moment only, which may be over too soon on a machine with other work to do.
        while !is_free_at_once(fixture, threads, guard_is).await {
            tries += 1;
            assert!(tries < TRIES_MAX, "{guard_is:?}: the lock is not free at the end of the runtime");
        }
    }
}

/// Tells whether a waiter is granted the lock long before the session would end by itself.
async fn is_free_at_once(fixture: &dyn Fixture, threads: Threads, guard_is: GuardIs) -> bool {
    let [ann, bob] = parties(fixture).await;
    let (queued, until_queued) = oneshot::channel::<()>();
    let (locked, until_locked) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        let mut builder = match threads {
            Threads::One => Builder::new_current_thread(),
            Threads::Several => Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime is built");
        let guard = runtime.block_on(ann.lock("door"));
        let _ = locked.send(guard.hold().clone());
        runtime.block_on(until_queued).expect("the other has queued up");
        let guard = match guard_is {
            GuardIs::JustDropped => {
                drop(guard);
                None
            }
            GuardIs::OfATask => {
                runtime.spawn(async move {
                    std::future::pending::<()>().await;
                    drop(guard);
                });
                None
            }
            GuardIs::Elsewhere => Some(guard),
        };
        drop(runtime);
        drop(guard);
    });
    let hold = soon("the grant", until_locked).await.expect("the thread does not panic");
    let waiting = bob.queue_up("door").await;
    queued.send(()).expect("the thread waits for it");
    let (next, waited) = measured(fixture, Duration::ZERO, granted(waiting)).await;
    release(next).await;
    thread.join().expect("dropping a guard does not panic");
    assert!(!hold.is_held());
    waited.late < AT_ONCE
}

async fn in_a_panicking_task(fixture: &dyn Fixture) {
    is_released_by(fixture, async |guard| {
        let task = tokio::spawn(async move {
            let _guard = guard;
            yield_now().await;
            // Like a panic, but without its message, which would look like a failure.
            resume_unwind(Box::new("planned"));
        });
        let error = task.await.expect_err("the task panics");
        assert!(error.is_panic());
    })
    .await;
}

async fn in_a_caught_panic(fixture: &dyn Fixture) {
    is_released_by(fixture, async |guard| {
        let panicking = AssertUnwindSafe(move || {
            let _guard = guard;
            resume_unwind(Box::new("planned"));
        });
        assert!(catch_unwind(panicking).is_err());
    })
    .await;
}

async fn outlives_its_keeper(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mutex = ann.mutex("door");
    let guard = soon("the grant", mutex.lock()).await.expect("the lock is granted");
    drop(ann);
    drop(mutex);
    assert!(guard.hold().is_held());
    assert!(bob.try_lock("door").await.is_none());
    release(guard).await;
    assert!(bob.try_lock("door").await.is_some());
}

async fn hold_clones(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let hold = guard.hold().clone();
    drop(guard.hold().clone());
    assert!(hold.is_held() && guard.hold().is_held());
    assert!(bob.try_lock("door").await.is_none());
    assert_ne!(hold.safe_for(), Some(Duration::ZERO));
    assert_eq!(hold.fencing_token(), guard.fencing_token());
    assert_eq!(hold.name().as_str(), "door");

    let watching = hold.clone();
    let lost = tokio::spawn(async move { watching.lost().await });
    release(guard).await;
    assert_eq!(soon("the loss", lost).await.expect("no panic"), LossReason::Released);
    assert_eq!(hold.liveness(), Liveness::Lost(LossReason::Released));
    assert_eq!(hold.safe_for(), Some(Duration::ZERO));
    assert!(hold.standing().is_none(), "a lock given back cannot be kept by a lifeline");

    let next = bob.lock("door").await;
    assert!(!hold.is_held(), "another's grant revives no hold");
    release(next).await;
    let relocked = ann.lock("door").await;
    assert!(!hold.is_held(), "our own next grant revives no hold");
    release(relocked).await;
}

async fn heard_by_the_service(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let guard = ann.lock("door").await;
    ann.inflict(Fault::Pause).await;
    let mut releasing = Box::pin(guard.release());
    for _ in 0..LOOKS {
        let answer = at_most(1, &mut releasing).await;
        assert!(answer.is_none(), "the service stands still and cannot have heard of it");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    ann.inflict(Fault::Resume).await;
    let outcome = soon("the release", releasing).await;
    let lost = outcome.err().map(|error| error.kind());
    // A service may have ended the session meanwhile; then that is what is reported.
    assert!(matches!(lost, None | Some(ErrorKind::Lost(_))), "{lost:?}");
    ann.until_contenders("door", 0).await;
}

pub(super) fn runs() -> Vec<Case> {
    vec![
        Case::new("run() holds the lock while the work goes on and returns its output", returns_the_output),
        Case::new("run() gives the lock back when the work panics", work_panics),
        Case::new("run() drops the work when the lock is lost", drops_the_work).needs(&[FaultKind::ExpireSession]),
        Case::new("run() does not start the work when the lock is not granted", does_not_start),
        Case::new("run_timeout() and its sisters give up in time, without the work, and run it when they can", in_time)
            .given_back()
            .uses(Modes::READ_WRITE),
    ]
}

async fn returns_the_output(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mutex = ann.mutex("door");
    let output = mutex.run(|hold| async move {
        assert!(hold.is_held());
        assert!(bob.try_lock("door").await.is_none());
        let waiting = bob.queue_up("door").await;
        (hold, waiting)
    });
    let (hold, waiting) = soon("the output", output).await.expect("the lock is kept");
    assert!(!hold.is_held());
    release(granted(waiting).await).await;
}

async fn work_panics(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mutex = ann.mutex("door");
    let task = tokio::spawn(async move { mutex.run(|_| async { resume_unwind(Box::new("planned")) }).await });
    assert!(soon("the panic", task).await.is_err_and(|error| error.is_panic()));
    release(bob.lock("door").await).await;
}

/// Records that it was dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

async fn drops_the_work(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let dropped = Arc::new(AtomicBool::new(false));
    let (started, until_started) = oneshot::channel();
    let mutex = ann.mutex("door");
    let witness = Dropped(dropped.clone());
    let task = tokio::spawn(async move {
        let work = |_| async move {
            let _witness = witness;
            let _ = started.send(());
            std::future::pending::<()>().await;
        };
        mutex.run(work).await
    });
    soon("the work's start", until_started).await.expect("the work starts");
    let waiting = bob.queue_up("door").await;
    assert!(!dropped.load(Ordering::SeqCst));
    ann.inflict(Fault::ExpireSession).await;
    let outcome = soon("the end of run()", task).await.expect("the task does not panic");
    let error = outcome.expect_err("the lock was lost");
    assert!(matches!(error.kind(), ErrorKind::Lost(LossReason::Expired)), "{error:?}");
    assert!(dropped.load(Ordering::SeqCst), "the work was dropped before run() answered");
    release(granted(waiting).await).await;
}

async fn does_not_start(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let started = AtomicBool::new(false);
    let mutex = bob.mutex("door");
    let work = mutex.run(|_| async { started.store(true, Ordering::SeqCst) });
    let queued = async {
        ann.until_contenders("door", 2).await;
        bob.keeper.close().await
    };
    let (outcome, closed) = soon("the refusal", async { tokio::join!(work, queued) }).await;
    closed.expect("the keeper is closed");
    assert_eq!(outcome.expect_err("the keeper was closed").kind(), ErrorKind::Closed);
    assert!(!started.load(Ordering::SeqCst));
    release(guard).await;
}

async fn in_time(fixture: &dyn Fixture) {
    /// Long enough to queue up and leave again, unless the machine is busy.
    const IN_VAIN: Duration = Duration::from_millis(500);
    /// Longer than any grant takes.
    const ENOUGH: Duration = Duration::from_secs(3600);
    let [ann, bob] = parties(fixture).await;
    let (mutex, book) = (bob.mutex("door"), bob.rw_lock("book"));
    let held = (ann.lock("door").await, ann.write("book").await);
    for timeout in [Duration::ZERO, IN_VAIN] {
        let begun = AtomicBool::new(false);
        let work = |_| async { begun.store(true, Ordering::SeqCst) };
        let outcomes = [
            answered(async || mutex.run_timeout(timeout, work).await).await,
            answered(async || book.run_read_timeout(timeout, work).await).await,
            answered(async || book.run_write_timeout(timeout, work).await).await,
        ];
        assert_eq!(outcomes, [None; 3]);
        assert!(!begun.load(Ordering::SeqCst), "the lock was not granted");
    }
    release(held.0).await;
    release(held.1).await;
    let work = |hold: lockkeeper_recipes::Hold| async move { hold.is_held() };
    for timeout in [Duration::ZERO, ENOUGH] {
        let outcomes = [
            soon("the output", mutex.run_timeout(timeout, work)).await,
            soon("the output", book.run_read_timeout(timeout, work)).await,
            soon("the output", book.run_write_timeout(timeout, work)).await,
        ];
        for outcome in outcomes {
            assert_eq!(outcome.expect("the lock is kept"), Some(true));
        }
    }
    ann.until_contenders("door", 0).await;
    ann.until_contenders("book", 0).await;
}
