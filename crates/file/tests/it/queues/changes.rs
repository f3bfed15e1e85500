//! Watching a queue whose directory comes, goes and is wiped.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{ConnectionNumber, Departure, Expected, QueueView};
use tempfile::tempdir;

use crate::one_lock::{directory_of, frozen, join, lock, sessions};
use crate::support::{Place, session};

#[tokio::test]
async fn a_queue_is_watched_before_its_directory_is_there_and_while_it_comes_and_goes() {
    let (directory, [watching]) = sessions();
    let mut seen = QueueView::new(ConnectionNumber(0), []);
    for _ in 0..20 {
        let waiting = tokio::spawn(watching.changed(&lock(), &seen));
        tokio::task::yield_now().await;
        let ours = session(directory.path());
        let place = Place::join(&ours, &lock()).await.unwrap();
        seen = soon("the change", waiting).await.unwrap().unwrap();
        assert_eq!(seen.contenders.len(), 1);
        let waiting = tokio::spawn(watching.changed(&lock(), &seen));
        tokio::task::yield_now().await;
        place.leave().await.unwrap();
        ours.close().await.unwrap();
        seen = soon("the change", waiting).await.unwrap().unwrap();
        assert_eq!(seen.contenders.len(), 0);
        assert!(!directory_of(directory.path()).exists(), "a watcher keeps no directory");
    }
}

#[tokio::test]
async fn a_value_is_watched_before_its_directory_is_there_and_after_it_was_wiped() {
    let parent = tempdir().unwrap();
    let base = parent.path().join("locks");
    let (watching, ours) = (session(&base), session(&base));
    let waiting = tokio::spawn(watching.values().until_changed(&lock(), None));
    tokio::task::yield_now().await;
    let version = soon("the write", ours.values().set(&lock(), Expected::Any, Some(Arc::from(*b"x")))).await.unwrap();
    assert_eq!(soon("the change", waiting).await.unwrap().unwrap().map(|value| value.version), version);
    let waiting = tokio::spawn(watching.values().until_changed(&lock(), version));
    tokio::task::yield_now().await;
    fs::remove_dir_all(&base).unwrap();
    assert_eq!(soon("the change", waiting).await.unwrap().unwrap(), None);
    let waiting = tokio::spawn(watching.values().until_changed(&lock(), None));
    tokio::task::yield_now().await;
    soon("the write", ours.values().set(&lock(), Expected::Any, Some(Arc::from(*b"y")))).await.unwrap();
    assert_eq!(&*soon("the change", waiting).await.unwrap().unwrap().unwrap().bytes, b"y");
}

#[tokio::test]
async fn a_lock_whose_name_begins_with_a_dot_is_watched_like_any_other() {
    let (_directory, [watching, ours]) = sessions();
    for name in [".new-1", ".enter", ".", "~"] {
        let queue = crate::support::queue(name);
        let waiting = tokio::spawn(watching.changed(&queue, &QueueView::new(ConnectionNumber(0), [])));
        tokio::task::yield_now().await;
        let place = Place::join(&ours, &queue).await.unwrap();
        assert_eq!(soon("the change", waiting).await.unwrap().unwrap().contenders.len(), 1, "{name}");
        place.leave().await.unwrap();
    }
}

#[tokio::test]
async fn a_wait_behind_a_frozen_place_ends_when_the_directory_is_wiped() {
    let parent = tempdir().unwrap();
    let base = parent.path().join("locks");
    let ours = session(&base);
    let ice = join(&ours, &lock(), frozen("moving")).await;
    let waiting = tokio::spawn(ours.departure(&lock(), None, &ice.id, ConnectionNumber(0)));
    tokio::task::yield_now().await;
    fs::remove_dir_all(&base).unwrap();
    assert_eq!(soon("the departure", waiting).await.unwrap().unwrap(), Departure::Gone);
}

#[tokio::test]
async fn what_is_made_together_is_reported_when_all_of_it_is_there() {
    let (directory, [ours, watching]) = sessions();
    let held = Place::join(&ours, &lock()).await.unwrap();
    let waiting = tokio::spawn(watching.changed(&lock(), &held.joined.view));
    tokio::task::yield_now().await;
    // One step after another, as the maker does it, with a look after each.
    let (path, first) = (directory_of(directory.path()), held.number() + 1);
    let mark = path.join(format!(".new-batch-{first:020}"));
    fs::write(&mark, "").unwrap();
    let prepared = path.join(".new-1");
    fs::write(&prepared, "moving\n").unwrap();
    fs::rename(prepared, path.join(format!("{first:020}-{:032x}-mutex+frozen-4121-web-backup", 7))).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished(), "it is not seen before it is whole");
    fs::remove_file(mark).unwrap();
    assert_eq!(soon("the change", waiting).await.unwrap().unwrap().contenders.len(), 2);
}
