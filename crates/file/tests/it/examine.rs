//! Findings of an examination of a directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, Scrutiny, Severity};
use lockkeeper_file::FileBackend;
use tempfile::TempDir;

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
