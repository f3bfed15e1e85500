//! Snapshots that are made while the server writes, and directories that are copied or left meanwhile.

use super::*;

#[tokio::test]
async fn a_snapshot_makes_earlier_files_superfluous_and_can_be_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let (mut storage, mut state) = open(folder.path()).unwrap();
    for number in 0..4 {
        let transaction = transaction(&mut state, number);
        storage.append(vec![encode_transaction(&transaction)]);
        state.replay(&transaction).unwrap();
        if number % 2 == 1 {
            storage.finish_snapshot(&mut state).await;
        }
    }
    storage.close(&mut state).await;
    let (log, snapshot) = (format!("log.{:016x}", state.zxid), format!("snapshot.{:016x}", state.zxid));
    let before = state.zxid - 2;
    let (log_before, snapshot_before) =
        (format!("log.{before:016x}.previous"), format!("snapshot.{before:016x}.previous"));
    assert_eq!(names(folder.path()), ["lock", &*log_before, &log, &*snapshot_before, &snapshot]);
    // A snapshot that was being written when the server ended is no snapshot.
    fs::write(folder.path().join("snapshot.7fffffffffffffff.unfinished"), "torn").unwrap();
    let again = reopen(folder.path());
    assert_eq!(nodes_of(&again), nodes_of(&state));
}

/// What a copying thread found: how much was acknowledged when it began, and the copy.
fn copies_under_way(folder: &Path, acknowledged: &AtomicU64, count: usize) -> Vec<(u64, tempfile::TempDir)> {
    let copy = |_| loop {
        let before = acknowledged.load(Ordering::SeqCst);
        let copied = tempfile::tempdir().unwrap();
        for name in names(folder) {
            // A file that is gone meanwhile is missing in the copy, as in one that a program makes.
            let _ = fs::copy(folder.join(&name), copied.path().join(&name));
        }
        // One that has nothing but the lock is no copy, and that program says so.
        if names(copied.path()).len() > 1 {
            return (before, copied);
        }
    };
    (0..count).map(copy).collect()
}

#[tokio::test]
async fn a_copy_that_was_made_while_the_server_wrote_has_all_of_before_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mut storage, mut state) = open(folder.path()).unwrap();
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (path, seen) = (folder.path().to_owned(), acknowledged.clone());
    let copying = std::thread::spawn(move || copies_under_way(&path, &seen, 30));
    let mut number = 0;
    while !copying.is_finished() {
        let transaction = transaction(&mut state, number);
        store(&mut storage, &mut state, &transaction).await;
        acknowledged.fetch_add(1, Ordering::SeqCst);
        if number % 40 == 0 {
            storage.finish_snapshot(&mut state).await;
        }
        number += 1;
    }
    let copies = copying.join().unwrap();
    for (before, copy) in copies {
        match recovered(copy.path()) {
            Ok(state) => assert!(state.tree.len() as u64 - SERVICE_NODES >= before, "{before} were acknowledged"),
            Err(error) => assert!(matches!(error, StorageError::Damaged { .. }), "{error}"),
        }
    }
}

/// How many nodes there are while a snapshot is taken in slices.
const SLICED_NODES: i64 = 5_000;

/// A server that changes while its snapshot is taken, and dies at some point of it.
#[tokio::test]
async fn a_server_that_dies_at_any_point_of_a_snapshot_loses_nothing() {
    for changes in [0, 1, 3, 7, 20, 1_000] {
        let folder = tempfile::tempdir().unwrap();
        let (mut storage, mut state) = open(folder.path()).unwrap();
        let many = TreeTransaction {
            zxid: state.zxid + 1,
            time_ms: WALL_MS,
            changes: (0..SLICED_NODES).map(|at| transaction(&mut state, -1 - at).changes.remove(0)).collect(),
        };
        store(&mut storage, &mut state, &many).await;
        let begun_at = state.zxid;
        storage.begin_snapshot(&mut state);
        for number in 0..changes {
            let transaction = transaction(&mut state, number);
            store(&mut storage, &mut state, &transaction).await;
            storage.go_on(&mut state);
        }
        drop(storage);
        let (found, recovered) = found_again(folder.path());
        assert_eq!(nodes_of(&found), nodes_of(&state), "after {changes} changes");
        if changes == 1_000 {
            assert_eq!(recovered.snapshot_zxid, begun_at, "it was whole by then");
        }
        if changes == 0 {
            assert!(recovered.snapshot_zxid < begun_at, "it was given up");
            assert!(names(folder.path()).iter().all(|name| !name.ends_with(".unfinished")), "and removed");
        }
    }
}
