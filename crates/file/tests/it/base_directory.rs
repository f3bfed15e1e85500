//! The base directory: where it may lie, what it says of itself, what an examination finds in it, and what becomes of
//! its locks when it is wiped or its counter is lost.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_core::{Backend, BoxFuture, ErrorKind, LossReason, Scrutiny, Severity, StoppedHolder};
use lockkeeper_file::FileBackend;
use tempfile::{TempDir, tempdir};

use crate::one_lock::LOCK;
use crate::support::{Place, backend, lock, queue, session};

/// A clock that was set back to the beginning of time.
#[derive(Debug)]
struct SetBack;

impl Clock for SetBack {
    fn now(&self) -> BootInstant {
        SystemClock.now()
    }

    fn sleep_until(&self, deadline: BootInstant) -> BoxFuture<()> {
        SystemClock.sleep_until(deadline)
    }

    fn unix_time(&self) -> Duration {
        Duration::ZERO
    }
}

#[tokio::test]
async fn no_contender_gets_ahead_of_a_holder_even_if_the_counter_is_lost_and_the_clock_set_back() {
    let directory = tempdir().unwrap();
    let held = lock(&session(directory.path()), &queue(LOCK)).await.unwrap();
    fs::remove_file(directory.path().join("counter")).unwrap();
    let late = FileBackend::open(directory.path(), Arc::new(SetBack)).unwrap().session().await.unwrap();
    let late = Place::join(&late, &queue(LOCK)).await.unwrap();
    assert!(late.number() > held.number());
    assert_eq!(late.joined.view.contenders.len(), 2);
}

#[tokio::test]
async fn a_wiped_directory_is_made_anew_while_it_is_in_use() {
    let parent = tempdir().unwrap();
    let base = parent.path().join("locks");
    let ours = session(&base);
    let held = lock(&ours, &queue(LOCK)).await.unwrap();
    let lost = tokio::spawn(held.joined.standing.lost());
    tokio::task::yield_now().await;
    fs::remove_dir_all(&base).unwrap();
    assert_eq!(soon("the loss", lost).await.unwrap(), LossReason::Displaced);
    let (again, theirs) = (lock(&ours, &queue(LOCK)).await.unwrap(), session(&base));
    assert!(again.number() > held.number());
    let behind = Place::join(&theirs, &queue(LOCK)).await.unwrap();
    assert_eq!(behind.joined.view.contenders[0].id, again.joined.id, "both must be in the same new directory");
}

#[test]
fn the_directory_says_where_it_is_and_what_it_promises() {
    let directory = tempdir().unwrap();
    let backend = backend(directory.path());
    assert_eq!(backend.service(), format!("file:{}", directory.path().display()));
    assert_eq!(backend.capabilities().stopped_holder, StoppedHolder::Keeps);
}

#[tokio::test]
async fn a_network_or_virtual_file_system_is_refused_with_the_cure() {
    let error = FileBackend::open(Path::new("/proc/self"), Arc::new(SystemClock)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(format!("{error:#}").contains("proc") && format!("{error:#}").contains("local disk"), "{error}");
}

/// What is found of a directory, without what is so on this machine's file system for temporary files.
async fn found(directory: &TempDir) -> Vec<(Severity, String)> {
    let backend = FileBackend::open(directory.path(), Arc::new(SystemClock)).expect("the directory can be used");
    let findings = backend.admin().examine(Scrutiny::Full).await.expect("it can be examined");
    let of_locks = findings.into_iter().filter(|finding| !finding.what.contains("in memory"));
    of_locks.map(|finding| (finding.severity, finding.what)).collect()
}

#[tokio::test]
async fn a_new_directory_of_one_user_is_in_order() {
    assert_eq!(found(&TempDir::new().unwrap()).await, []);
}

#[tokio::test]
async fn a_directory_that_all_users_may_write_is_mentioned() {
    let directory = TempDir::new().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    let found = found(&directory).await;
    assert!(matches!(&found[..], [(Severity::Note, what)] if what.starts_with("all users")), "{found:?}");
}

#[tokio::test]
async fn something_else_in_the_place_of_the_queues_is_an_error_with_its_path() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("queues"), "").unwrap();
    let backend = FileBackend::open(directory.path(), Arc::new(SystemClock)).unwrap();
    let error = backend.admin().examine(Scrutiny::Full).await.expect_err("no lock can be had");
    assert!(error.to_string().contains("queues"), "{error:#}");
}
