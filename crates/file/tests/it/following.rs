//! Events that following meets on files alone: lost reports, directories that come and go, names that are digests,
//! grants.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{Request, Revocation};
use lockkeeper_faults::long;
use lockkeeper_recipes::Keeper;
use tempfile::tempdir;

use crate::one_lock::{LOCK, sessions};
use crate::support::{Onlooker, Place, backend, lock, queue, session};

/// How many changes are timed.
const TIMED: usize = 100;

/// The most that half of the changes may take in the long run, from the call until it is told: ten times what they take
/// on a machine that is not busy.
const MEDIAN_MAX: Duration = Duration::from_millis(100);

/// How many reports the kernel keeps for one instance.
fn reports_max() -> usize {
    let text = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("Linux has inotify");
    text.trim().parse().expect("a number")
}

/// Makes as many changes in a directory as the kernel keeps no reports of, without letting others run meanwhile.
fn flood(directory: &Path) {
    for number in 0..reports_max() {
        fs::write(directory.join(number.to_string()), "").expect("written");
        fs::remove_file(directory.join(number.to_string())).expect("removed");
    }
}

#[tokio::test]
async fn reports_that_are_lost_have_all_told_anew() {
    let (directory, [ours]) = sessions();
    let held = lock(&ours, &queue(LOCK)).await.unwrap();
    let mut onlooker = Onlooker::begin(directory.path()).await;
    onlooker.until_equal().await;
    let before = onlooker.wholes;
    flood(&directory.path().join("queues").join(LOCK));
    let other = lock(&ours, &queue("other")).await.unwrap();
    while onlooker.wholes == before {
        onlooker.hear().await;
    }
    onlooker.until_equal().await;
    assert_eq!(onlooker.picture.locks().len(), 2);
    held.leave().await.unwrap();
    onlooker.until_locks(1).await;
    other.leave().await.unwrap();
    onlooker.until_locks(0).await;
}

#[tokio::test]
async fn a_directory_that_is_removed_and_made_again_is_followed_through_all_of_that() {
    let parent = tempdir().unwrap();
    let base = parent.path().join("locks");
    let ours = session(&base);
    assert!(!base.exists(), "a session makes nothing");
    let mut onlooker = Onlooker::begin(&base).await;
    for _ in 0..2 {
        fs::remove_dir_all(&base).unwrap_or_default();
        onlooker.until_locks(0).await;
        let _held = lock(&ours, &queue(LOCK)).await.unwrap();
        onlooker.until_locks(1).await;
        onlooker.until_equal().await;
    }
    // Renamed, and another one in its place.
    fs::rename(&base, parent.path().join("old")).unwrap();
    let others = session(&base);
    let other = lock(&others, &queue("other")).await.unwrap();
    while onlooker.picture.locks().keys().all(|name| name.as_str() != "other") {
        onlooker.hear().await;
    }
    onlooker.until_equal().await;
    other.leave().await.unwrap();
    onlooker.until_locks(0).await;
}

#[tokio::test]
async fn a_lock_s_directory_that_is_renamed_is_another_lock_and_the_next_one_of_its_name_is_followed() {
    let (directory, [ours]) = sessions();
    let _held = lock(&ours, &queue(LOCK)).await.unwrap();
    let mut onlooker = Onlooker::begin(directory.path()).await;
    let queues = directory.path().join("queues");
    fs::rename(queues.join(LOCK), queues.join("renamed")).unwrap();
    let again = lock(&session(directory.path()), &queue(LOCK)).await.unwrap();
    onlooker.until_equal().await;
    let joined = Place::join(&session(directory.path()), &queue("renamed")).await.unwrap();
    onlooker.until_equal().await;
    again.leave().await.unwrap();
    joined.leave().await.unwrap();
    onlooker.until_equal().await;
}

#[tokio::test]
async fn a_name_that_is_stored_as_a_digest_a_grant_and_a_request_are_told() {
    let directory = tempdir().unwrap();
    let keeper = Keeper::new(Arc::new(backend(directory.path())));
    let mut onlooker = Onlooker::begin(directory.path()).await;
    let name = "/é".repeat(66);
    let guard = soon("the grant", keeper.mutex(&name).unwrap().lock()).await.unwrap();
    onlooker.until_equal().await;
    let (told, infos) = onlooker.picture.locks().first_key_value().expect("it is told");
    let (told, id, granted) = (told.clone(), infos[0].id.clone(), infos[0].granted_unix);
    assert!(told.as_str() == name && granted.is_some(), "{infos:?}");
    let why = Request::Yield(Revocation::new(Some("please".to_owned()), None));
    assert!(session(directory.path()).request(&told, &id, why).await.unwrap());
    onlooker.until_equal().await;
    let asked = onlooker.picture.locks()[&told][0].revocation.clone();
    assert_eq!(asked.and_then(|asked| asked.why), Some("please".to_owned()));
    guard.release().await.unwrap();
    onlooker.until_locks(0).await;
}

#[tokio::test]
async fn a_change_is_told_at_once() {
    let (directory, [ours]) = sessions();
    // Another lock keeps the directory of all locks.
    let _kept = lock(&ours, &queue("kept")).await.unwrap();
    let mut onlooker = Onlooker::begin(directory.path()).await;
    let mut delays = Vec::new();
    for _ in 0..TIMED / 2 {
        let begun = SystemClock.now();
        let held = lock(&ours, &queue(LOCK)).await.unwrap();
        onlooker.until_locks(2).await;
        let left = SystemClock.now();
        held.leave().await.unwrap();
        onlooker.until_locks(1).await;
        delays.extend([left.saturating_duration_since(begun), SystemClock.now().saturating_duration_since(left)]);
    }
    delays.sort_unstable();
    let (count, median, longest) = (delays.len(), delays[delays.len() / 2], delays[delays.len() - 1]);
    println!("files: half of {count} changes made and told within {median:?}, all within {longest:?}");
    assert!(!long::is_asked_for() || median <= MEDIAN_MAX, "{median:?}");
}
