//! Work run under the lock.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_core::{ErrorKind, LossReason, Modes};
use tokio::sync::oneshot;

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{answered, granted, parties, release};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
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
