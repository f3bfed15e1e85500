//! A directory that is renamed or replaced while locks in it are held and waited for: the directory that the path leads
//! to is the lock.

#![expect(clippy::disallowed_methods, reason = "these tests measure how long a notice takes")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper_conformance::soon;
use lockkeeper_core::{ErrorKind, Liveness, LivenessAt, LossReason};
use lockkeeper_faults::long;
use lockkeeper_recipes::{Handoff, Keeper};
use tempfile::{TempDir, tempdir};
use tokio::task::JoinSet;

use crate::one_lock::LOCK;
use crate::support::{Place, backend, lock as take, queue, session};

/// Within which time a running process notices; judged in the long run.
const NOTICE_MAX: Duration = Duration::from_secs(1);

/// How old the look may be by which a turn begins and ends.
const LOOK_AGE_MAX: Duration = Duration::from_micros(50);

/// How often each way is tried.
const ROUNDS: usize = 4;

/// One of them, with its name.
type Way = (&'static str, fn(&Stage));

/// The ways in which the directory of a lock can be taken away.
const WAYS: [Way; 7] = [
    ("the base is renamed", |stage| stage.rename("up/base")),
    ("the base is replaced", |stage| {
        stage.rename("up/base");
        stage.make("up/base");
    }),
    ("a directory above is renamed", |stage| stage.rename("up")),
    ("a directory above is replaced", |stage| {
        stage.rename("up");
        stage.make("up");
    }),
    ("the directory of the queues is renamed", |stage| stage.rename("up/base/queues")),
    ("the queue's own directory is replaced", |stage| {
        stage.rename("up/base/queues/q");
        stage.make("up/base/queues/q");
    }),
    ("the way to the base is a link that leads elsewhere now", |stage| {
        let elsewhere = tempdir().unwrap().keep();
        stage.rename("up");
        // One that waits may have made it anew in between.
        while symlink(&elsewhere, stage.root.path().join("up")).is_err() {
            fs::remove_dir_all(stage.root.path().join("up")).unwrap();
        }
    }),
];

/// A base directory with directories above it.
struct Stage {
    root: TempDir,
}

impl Stage {
    fn set() -> Self {
        let root = tempdir().unwrap();
        fs::create_dir_all(root.path().join("up/base")).unwrap();
        Self { root }
    }

    fn base(&self) -> PathBuf {
        self.root.path().join("up/base")
    }

    fn rename(&self, what: &str) {
        let from = self.root.path().join(what);
        fs::rename(&from, from.with_extension("old")).unwrap();
    }

    /// Makes a directory anew, if one that waits has not made it in between.
    fn make(&self, what: &str) {
        fs::create_dir_all(self.root.path().join(what)).unwrap();
    }
}

fn keeper(base: &Path) -> Keeper {
    Keeper::builder(Arc::new(backend(base))).build()
}

#[tokio::test]
async fn a_holder_is_told_within_a_second_and_at_once_if_it_asks() {
    for (way, replace) in WAYS.repeat(ROUNDS) {
        let stage = Stage::set();
        let keeper = keeper(&stage.base());
        let guard = keeper.mutex(LOCK).unwrap().lock().await.unwrap();
        let asked = session(&stage.base());
        let other = take(&asked, &queue("other")).await.unwrap();
        let told = tokio::spawn({
            let hold = guard.hold().clone();
            async move { (hold.lost().await, Instant::now()) }
        });
        tokio::task::yield_now().await;
        let replaced_at = Instant::now();
        replace(&stage);
        assert!(!guard.hold().is_held(), "{way}");
        let (reason, told_at) = soon("the loss", told).await.unwrap();
        assert_eq!(reason, LossReason::Displaced, "{way}");
        assert!(!long::is_asked_for() || told_at - replaced_at < NOTICE_MAX, "{way}: {:?}", told_at - replaced_at);
        let is_other = way.starts_with("the queue's own");
        let liveness = other.joined.standing.liveness(LivenessAt::Now);
        assert_eq!(liveness.is_held(), is_other, "{way}: a lock beside it");
        assert!(is_other || liveness == Liveness::Lost(LossReason::Displaced));
        let error = soon("the release", guard.release()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost(LossReason::Displaced), "{way}");
    }
}

#[tokio::test]
async fn a_turn_of_a_place_whose_directory_was_replaced_ends_with_a_report_and_none_follows_it() {
    for (way, replace) in WAYS.repeat(ROUNDS) {
        let stage = Stage::set();
        let keeper = keeper(&stage.base());
        let mutex = keeper.mutex(LOCK).unwrap().handoff(Handoff::sticky());
        mutex.lock().await.unwrap().release().await.unwrap();
        let guard = mutex.lock().await.unwrap();
        let token = guard.fencing_token();
        assert_eq!(token.turn(), 1, "{way}");
        let replaced_at = Instant::now();
        replace(&stage);
        while replaced_at.elapsed() <= LOOK_AGE_MAX {
            std::hint::spin_loop();
        }
        let error = soon("the release", guard.release()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost(LossReason::Displaced), "{way}");
        let next = soon("the grant", mutex.lock()).await.unwrap();
        assert!(next.fencing_token() > token && next.hold().is_held(), "{way}");
    }
}

/// A holder made of the backend traits alone, which does not listen: it is as if it were stopped.
#[tokio::test]
async fn a_waiter_goes_on_within_a_second_in_the_directory_that_has_the_name_now() {
    for (way, replace) in WAYS.repeat(ROUNDS) {
        let stage = Stage::set();
        let stopped = take(&session(&stage.base()), &queue(LOCK)).await.unwrap();
        let keeper = keeper(&stage.base());
        let mut waiters = JoinSet::new();
        for _ in 0..3 {
            let mutex = keeper.mutex(LOCK).unwrap();
            waiters.spawn(async move { mutex.lock().await });
        }
        while keeper.contenders(LOCK).await.unwrap().len() < 4 {
            tokio::task::yield_now().await;
        }
        let replaced_at = Instant::now();
        replace(&stage);
        while let Some(waiter) = soon("the end of a waiter", waiters.join_next()).await {
            let guard = waiter.unwrap().unwrap();
            assert!(!long::is_asked_for() || replaced_at.elapsed() < NOTICE_MAX, "{way}: {:?}", replaced_at.elapsed());
            assert!(guard.hold().is_held(), "{way}");
            let shown = keeper_of_another_process(&stage).contenders(LOCK).await.unwrap();
            assert_eq!(shown.first().map(|first| &first.id), Some(guard.hold().contender()), "{way}");
            assert!(guard.fencing_token() > stopped.joined.token, "{way}");
            soon("the release", guard.release()).await.unwrap();
        }
        drop(stopped);
    }
}

fn keeper_of_another_process(stage: &Stage) -> Keeper {
    keeper(&stage.base())
}

#[tokio::test]
async fn a_waiter_whose_whole_directory_is_removed_goes_on_too() {
    for _ in 0..20 {
        let stage = Stage::set();
        let held = keeper(&stage.base());
        let guard = held.mutex(LOCK).unwrap().lock().await.unwrap();
        let listening = tokio::spawn({
            let hold = guard.hold().clone();
            async move { hold.lost().await }
        });
        let keeper = keeper(&stage.base());
        let mutex = keeper.mutex(LOCK).unwrap();
        let waiter = tokio::spawn(async move { mutex.lock().await });
        while keeper.contenders(LOCK).await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        fs::remove_dir_all(stage.base()).unwrap();
        assert_eq!(soon("the loss", listening).await.unwrap(), LossReason::Displaced);
        let next = soon("the grant", waiter).await.unwrap().unwrap();
        assert!(next.hold().is_held());
    }
}

#[tokio::test]
async fn a_watcher_of_a_lock_sees_the_one_that_has_the_name_now() {
    for (way, replace) in WAYS {
        let stage = Stage::set();
        let watcher = keeper(&stage.base());
        let _held = take(&session(&stage.base()), &queue(LOCK)).await.unwrap();
        let mut changes = watcher.admin().changes(LOCK).unwrap();
        assert_eq!(soon("the change", changes.next()).await.unwrap().len(), 1, "{way}");
        replace(&stage);
        let replaced_at = Instant::now();
        assert_eq!(soon("the change", changes.next()).await.unwrap().len(), 0, "{way}");
        assert!(!long::is_asked_for() || replaced_at.elapsed() < NOTICE_MAX, "{way}: {:?}", replaced_at.elapsed());
        let new = Place::join(&session(&stage.base()), &queue(LOCK)).await.unwrap();
        assert_eq!(soon("the change", changes.next()).await.unwrap()[0].id, new.joined.id, "{way}");
    }
}

#[tokio::test]
async fn numbers_come_from_the_counter_that_has_the_name_now() {
    let stage = Stage::set();
    let ours = session(&stage.base());
    Place::join(&ours, &queue("before")).await.unwrap().leave().await.unwrap();
    stage.rename("up/base");
    let theirs = Place::join(&session(&stage.base()), &queue("theirs")).await.unwrap();
    let place = Place::join(&ours, &queue("ours")).await.unwrap();
    assert_eq!(place.number(), theirs.number() + 1);
}
