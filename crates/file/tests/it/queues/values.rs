//! Values on the disk.

use std::fs;
use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, ErrorKind, Expected, Mode, Part};

use crate::one_lock::{directory_of, entry, join, lock, names_in, sessions};
use crate::support::{Place, backend, session};

fn bytes(text: &str) -> Option<Arc<[u8]>> {
    Some(text.as_bytes().into())
}

#[tokio::test]
async fn a_value_outlives_its_sessions_and_is_not_a_lock() {
    let (directory, [ours]) = sessions();
    let version = soon("the write", ours.values().set(&lock(), Expected::Absent, bytes("41"))).await.unwrap().unwrap();
    Place::join(&ours, &lock()).await.unwrap().leave().await.unwrap();
    ours.close().await.unwrap();
    assert_eq!(names_in(directory.path()), [".enter", ".value-line"]);
    assert!(backend(directory.path()).admin().queues("").await.unwrap().is_empty());
    let theirs = session(directory.path());
    let value = theirs.values().get(&lock()).await.unwrap().unwrap();
    assert_eq!((&*value.bytes, value.version), (&b"41"[..], version));
    assert_eq!(theirs.values().get(&lock().with_part(Part::Waiters)).await.unwrap(), None);
    soon("the write", theirs.values().set(&lock(), Expected::Version(version), None)).await.unwrap().unwrap();
    theirs.close().await.unwrap();
    assert!(!directory_of(directory.path()).exists());
}

#[tokio::test]
async fn versions_grow_over_a_removal_and_over_a_counter_that_was_lost() {
    let (directory, [ours]) = sessions();
    let mut last = None;
    for round in 0..6 {
        let value = if round % 3 == 2 { None } else { bytes("x") };
        if round == 4 {
            fs::remove_file(directory.path().join("counter")).unwrap();
        }
        let version = soon("the write", ours.values().set(&lock(), Expected::Any, value)).await.unwrap();
        assert!(version > last);
        last = version;
    }
}

#[tokio::test]
async fn a_damaged_value_is_refused_by_name_with_the_cure() {
    let (directory, [ours]) = sessions();
    soon("the write", ours.values().set(&lock(), Expected::Any, bytes("x"))).await.unwrap();
    let path = directory_of(directory.path()).join(".value-line");
    fs::write(&path, "17").unwrap();
    for error in [
        ours.values().get(&lock()).await.unwrap_err(),
        soon("the write", ours.values().set(&lock(), Expected::Any, bytes("y"))).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Backend);
        assert!(
            format!("{error:#}").contains(path.to_str().unwrap()) && format!("{error:#}").contains("delete it"),
            "{error}"
        );
    }
    fs::remove_file(path).unwrap();
    assert_eq!(ours.values().get(&lock()).await.unwrap(), None);
}

#[tokio::test]
async fn a_write_called_for_before_the_close_is_done() {
    let (directory, [ours]) = sessions();
    let writing = ours.values().set(&lock(), Expected::Any, bytes("last words"));
    soon("the close", ours.close()).await.unwrap();
    assert!(soon("the end of the write", writing).await.unwrap().is_some());
    let value = session(directory.path()).values().get(&lock()).await.unwrap().unwrap();
    assert_eq!(&*value.bytes, b"last words");
    let refused = soon("the write", ours.values().set(&lock(), Expected::Any, None)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn what_was_agreed_on_a_semaphore_goes_with_the_last_holder_of_a_permit() {
    let (directory, [ours, theirs]) = sessions();
    let permits = lock().with_part(Part::Permits);
    let place = join(&theirs, &permits, entry(Mode::Permit)).await;
    let written = soon("the write", ours.values().set(&permits, Expected::Absent, bytes("3"))).await.unwrap();
    assert!(written.is_some());
    ours.close().await.unwrap();
    let value = theirs.values().get(&permits).await.unwrap().unwrap();
    assert_eq!((&*value.bytes, Some(value.version)), (&b"3"[..], written));
    drop(place);
    theirs.close().await.unwrap();
    assert!(!directory_of(directory.path()).exists());
}
