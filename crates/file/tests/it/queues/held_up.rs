//! Another process was stopped while it entered a queue, or while it took its number, and so keeps the flock without
//! end. Timeouts are met all the same, and nothing is left of the contenders that gave up.

#![expect(clippy::disallowed_methods, reason = "these tests measure how long an answer takes")]

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper_conformance::soon;
use lockkeeper_core::{ErrorKind, Expected};
use lockkeeper_faults::long;
use lockkeeper_recipes::{Keeper, Mutex};
use rustix::fs::FlockOperation;
use tempfile::{TempDir, tempdir};

use crate::one_lock::{LOCK, directory_of, lock, names_in};
use crate::support::{backend, session};

/// Within which time a call that does not wait is answered; judged in the long run.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How long the other calls wait: longer than a busy machine keeps the thread waiting that finds out that it is held
/// up.
const WAIT: Duration = Duration::from_secs(2);

/// How exactly they keep to that, by the runtime's own timers; judged in the long run.
const EXACTNESS: Duration = Duration::from_millis(50);

/// The files whose flocks are in the way of an entry.
const FLOCKS: [&str; 2] = ["counter", "queues/q/.enter"];

/// A directory that has a counter already, with the queue's directory.
fn used_directory() -> TempDir {
    let directory = tempdir().unwrap();
    std::fs::create_dir_all(directory_of(directory.path())).unwrap();
    drop(held(directory.path(), FLOCKS[1]));
    let counter = session(directory.path());
    drop(counter);
    directory
}

/// Takes a flock as another process does: by a separate opening.
fn held(directory: &Path, file: &str) -> File {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(directory.join(file)).unwrap();
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    file
}

fn keeper(directory: &Path) -> Keeper {
    Keeper::builder(Arc::new(backend(directory))).build()
}

/// Waits for what is to be there when a timer of this time fires, in the long run.
async fn no_later_than<T>(time: Duration, what: impl Future<Output = T>) -> T {
    if !long::is_asked_for() {
        return soon("the answer", what).await;
    }
    tokio::select! {
        biased;
        outcome = what => outcome,
        () = tokio::time::sleep(time) => panic!("it takes longer than {time:?}"),
    }
}

#[tokio::test]
async fn calls_with_and_without_a_wait_are_answered_in_time() {
    for flock in FLOCKS {
        let directory = used_directory();
        let stopped = held(directory.path(), flock);
        let keeper = keeper(directory.path());
        let (mutex, lock, permits) =
            (keeper.mutex(LOCK).unwrap(), keeper.rw_lock(LOCK).unwrap(), keeper.semaphore(LOCK, 2).unwrap());
        let asked_at = Instant::now();
        assert!(soon("the answer", mutex.try_lock()).await.unwrap().is_none(), "{flock}");
        assert!(!long::is_asked_for() || asked_at.elapsed() < ANSWER_MAX, "{flock}: {:?}", asked_at.elapsed());
        let asked_at = Instant::now();
        assert!(soon("the answer", permits.try_acquire()).await.unwrap().is_none(), "{flock}");
        assert!(!long::is_asked_for() || asked_at.elapsed() < ANSWER_MAX, "{flock}: {:?}", asked_at.elapsed());
        let asked_at = Instant::now();
        let answers = async {
            tokio::join!(
                mutex.lock_timeout(WAIT),
                lock.read_timeout(WAIT),
                lock.write_timeout(WAIT),
                permits.acquire_timeout(WAIT)
            )
        };
        let (mutex, reader, writer, permit) = no_later_than(WAIT + EXACTNESS, answers).await;
        let took = asked_at.elapsed();
        assert!(mutex.unwrap().is_none() && reader.unwrap().is_none(), "{flock}");
        assert!(writer.unwrap().is_none() && permit.unwrap().is_none(), "{flock}");
        assert!(took >= WAIT, "{flock}: {took:?}");
        // A withdrawn entry is not waited for either.
        no_later_than(EXACTNESS, keeper.close()).await.unwrap();
        drop(stopped);
    }
}

/// Has a contender give up.
async fn gives_up(mutex: &Mutex) {
    match soon("the answer", mutex.lock_timeout(EXACTNESS)).await {
        Ok(None) => {}
        // On a busy machine the thread that enters may not have begun by then.
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionLost, "{error}"),
        Ok(Some(_)) => panic!("a flock was in the way"),
    }
}

#[tokio::test]
async fn a_contender_that_gave_up_leaves_nothing_and_takes_nothing_once_the_way_is_free() {
    for flock in FLOCKS {
        let directory = used_directory();
        let keeper = keeper(directory.path());
        let mutex = keeper.mutex(LOCK).unwrap();
        let stopped = held(directory.path(), flock);
        for _ in 0..3 {
            gives_up(&mutex).await;
        }
        let patient = tokio::spawn({
            let mutex = mutex.clone();
            async move { mutex.lock().await }
        });
        gives_up(&mutex).await;
        drop(stopped);
        let guard = soon("the grant", patient).await.unwrap().unwrap();
        assert_eq!(keeper.contenders(LOCK).await.unwrap().len(), 1, "{flock}: {:?}", names_in(directory.path()));
        soon("the release", guard.release()).await.unwrap();
        assert!(soon("the answer", mutex.try_lock()).await.unwrap().is_some(), "{flock}");
        soon("the close", keeper.close()).await.unwrap();
    }
}

#[tokio::test]
async fn a_value_that_could_not_be_written_before_the_session_was_closed_is_never_written() {
    for flock in FLOCKS {
        let directory = used_directory();
        let stopped = held(directory.path(), flock);
        let ours = session(directory.path());
        let writing = ours.values().set(&lock(), Expected::Any, Some(b"x".as_slice().into()));
        // The thread has begun to wait; before, closing waits for the write.
        while !ours.is_held_up(&lock()) {
            tokio::task::yield_now().await;
        }
        soon("the close", ours.close()).await.unwrap();
        drop(stopped);
        assert!(soon("the end of the write", writing).await.is_err(), "{flock}");
        assert_eq!(session(directory.path()).values().get(&lock()).await.unwrap(), None, "{flock}");
    }
}
