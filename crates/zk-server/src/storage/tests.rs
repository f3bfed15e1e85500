//! Directories that were cut, damaged or left half-way, as a whole.

mod snapshotting;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::message::Acl;

use crate::machine::{Seed, ServerState};
use crate::record::{encode_state, encode_transaction};
use crate::storage::directory::DataDirectory;
use crate::storage::error::StorageError;
use crate::storage::handle::{OpenedStorage, Storage};
use crate::storage::log::{HEADER_BYTES, encode_header, mark_offset, record_bytes, scan};
use crate::storage::recovery::{Recovered, Recovery, recover};
use crate::storage::writer::StorageEvent;
use crate::tree::{NodeOwner, TreeChange, TreeTransaction};

const TICK: Duration = Duration::from_secs(2);
const WALL_MS: i64 = 1_800_000_000_000;
const RECORDS: i64 = 5;
/// The root, and the service's below it.
const SERVICE_NODES: u64 = 4;

/// What a directory held after each record, the state before the first one at the front.
struct Written {
    states: Vec<Bytes>,
    log: PathBuf,
    record_ends: Vec<usize>,
}

fn first_state() -> ServerState {
    let seed = Seed { secret: [1; 32], wall_ms: WALL_MS };
    ServerState::new(TICK, seed)
}

fn open(folder: &Path) -> Result<(Storage, ServerState), StorageError> {
    Storage::open(folder, TICK, WALL_MS, first_state).map(|OpenedStorage { storage, state, .. }| (storage, state))
}

fn transaction(state: &mut ServerState, number: i64) -> TreeTransaction {
    TreeTransaction {
        zxid: state.zxid + 1,
        time_ms: WALL_MS + number,
        changes: vec![
            TreeChange::Create {
                path: format!("/n{number}").into(),
                data: Some(vec![number as u8; 3].into()),
                access: state.tree.share_access(vec![Acl::open()]),
                owner: NodeOwner::Nothing,
            },
            TreeChange::SetData { path: "/".into(), data: None },
        ],
    }
}

/// Stores a transaction, and lets it take effect; returns how long its record is in the log.
async fn store(storage: &mut Storage, state: &mut ServerState, transaction: &TreeTransaction) -> usize {
    let record = encode_transaction(transaction);
    let bytes = record_bytes(&record);
    storage.append(vec![record]);
    assert_eq!(storage.next_event().await, StorageEvent::Stored(1));
    state.replay(transaction).unwrap();
    bytes
}

/// A directory whose server was killed after some records, each of them flushed.
async fn written(folder: &Path) -> Written {
    let (mut storage, mut state) = open(folder).unwrap();
    let log = file(folder, "log.");
    let mut written = Written { states: vec![nodes_of(&state)], log, record_ends: vec![HEADER_BYTES] };
    for number in 0..RECORDS {
        let transaction = transaction(&mut state, number);
        let bytes = store(&mut storage, &mut state, &transaction).await;
        written.record_ends.push(written.record_ends.last().unwrap() + bytes);
        written.states.push(nodes_of(&state));
    }
    drop(storage);
    found_again(folder);
    // Without most of the zeros ahead, which are a mebibyte to be copied each time.
    let mut bytes = fs::read(&written.log).unwrap();
    bytes.truncate(written.record_ends.last().unwrap() + 64);
    let header = encode_header(zxid_of(&written.log), bytes.len());
    bytes[..HEADER_BYTES].copy_from_slice(&header);
    fs::write(&written.log, bytes).unwrap();
    written
}

/// The number in a file's name.
fn zxid_of(path: &Path) -> i64 {
    i64::from_str_radix(path.file_name().unwrap().to_str().unwrap().split('.').nth(1).unwrap(), 16).unwrap()
}

/// The first file whose name begins so and has no end beside its number.
fn file(folder: &Path, prefix: &str) -> PathBuf {
    let names = names(folder);
    let name = names.iter().find(|name| name.starts_with(prefix) && name.matches('.').count() == 1);
    folder.join(name.unwrap_or_else(|| panic!("{prefix} among {names:?}")))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What a start would find, without starting.
fn recovered(folder: &Path) -> Result<ServerState, StorageError> {
    found(folder).map(|(state, _)| state)
}

fn found(folder: &Path) -> Result<(ServerState, Recovered), StorageError> {
    let Recovery { state, found, .. } = recover(&DataDirectory::open(folder)?, TICK)?.expect("a state was stored");
    Ok((state, found))
}

/// The file that is reported as damaged, and the whole sentence.
fn damage(folder: &Path) -> (PathBuf, String) {
    let error = recovered(folder).unwrap_err();
    let text = error.to_string();
    let StorageError::Damaged { path, .. } = error else { panic!("{text}") };
    (path, text)
}

/// The state but for the number of the latest transaction, which each start moves ahead.
fn nodes_of(state: &ServerState) -> Bytes {
    encode_state(state).slice(8..)
}

fn copy(from: &Path) -> tempfile::TempDir {
    let copied = tempfile::tempdir().unwrap();
    for name in names(from) {
        fs::copy(from.join(&name), copied.path().join(&name)).unwrap();
    }
    copied
}

#[tokio::test]
async fn a_log_cut_at_any_byte_is_refused_with_the_cure_and_read_up_to_there_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let written = written(folder.path()).await;
    let whole_length = fs::read(&written.log).unwrap().len();
    for length in 0..whole_length {
        let copied = copy(folder.path());
        let log = copied.path().join(written.log.file_name().unwrap());
        fs::File::options().write(true).open(&log).unwrap().set_len(length as u64).unwrap();
        let (path, text) = damage(copied.path());
        assert_eq!(path, log);
        let renamed = DataDirectory::incomplete(&log);
        assert!(text.contains(renamed.file_name().unwrap().to_str().unwrap()), "{text}");
        fs::rename(&log, &renamed).unwrap();
        let (state, found) = found(copied.path()).unwrap();
        let whole = written.record_ends.iter().filter(|end| **end <= length).count().max(1);
        assert_eq!(nodes_of(&state), written.states[whole - 1], "cut at {length}");
        assert_eq!((found.transactions, found.incomplete), (whole as u64 - 1, Some(renamed)));
        if length % 50 == 0 {
            // What was recovered is kept: the next start finds the same.
            drop(open(copied.path()).unwrap());
            assert_eq!(nodes_of(&reopen(copied.path())), written.states[whole - 1]);
        }
    }
}

#[tokio::test]
async fn of_a_log_with_300_acknowledged_writes_no_cut_goes_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    let (mut storage, mut state) = open(folder.path()).unwrap();
    let (log, mut ends) = (file(folder.path(), "log."), vec![HEADER_BYTES]);
    // More than is filled ahead at once, so that the file is extended among them.
    for number in 0..300 {
        let mut transaction = transaction(&mut state, number);
        transaction.changes[1] = TreeChange::SetData { path: "/".into(), data: Some(vec![7; 8_000].into()) };
        ends.push(ends.last().unwrap() + store(&mut storage, &mut state, &transaction).await);
        if [0, 140, 299].contains(&number) {
            let bytes = Bytes::from(fs::read(&log).unwrap());
            let around = ends.iter().rev().step_by(9).flat_map(|end| [end - 1, *end, end + 1]);
            for length in around.chain((0..bytes.len()).step_by(29_989)).filter(|length| *length < bytes.len()) {
                let found = scan(&bytes.slice(..length), zxid_of(&log));
                let records = found.map_or(ends.len() - 1, |scan| scan.records.len());
                assert_eq!(records, ends.len() - 1, "cut at {length} of {}", bytes.len());
            }
        }
    }
    assert!(*ends.last().unwrap() > 2 << 20);
    drop(storage);
    let (again, found) = found_again(folder.path());
    assert_eq!((nodes_of(&again), found.transactions, found.cut_bytes), (nodes_of(&state), 300, 0));
}

#[tokio::test]
async fn what_a_crash_left_of_an_unacknowledged_write_is_cut_off_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let written = written(folder.path()).await;
    let last = written.record_ends.len() - 2;
    let mut bytes = fs::read(&written.log).unwrap();
    let torn = written.record_ends[last] + 20;
    bytes[torn..].fill(0);
    // The file was being extended for it, and its new length had not been flushed.
    bytes.resize(bytes.len() + 1000, 0);
    fs::write(&written.log, bytes).unwrap();
    let (state, found) = found(folder.path()).unwrap();
    assert_eq!(nodes_of(&state), written.states[last]);
    assert_eq!(found.transactions, last as u64);
    assert!((17..=20).contains(&found.cut_bytes), "{found}");
    assert!(found.to_string().contains("never acknowledged"), "{found}");
    drop(open(folder.path()).unwrap());
    assert_eq!(nodes_of(&reopen(folder.path())), written.states[last]);
}

#[tokio::test]
async fn a_missing_log_is_refused_with_the_cure() {
    let folder = tempfile::tempdir().unwrap();
    let written = written(folder.path()).await;
    fs::remove_file(&written.log).unwrap();
    let (path, text) = damage(folder.path());
    assert_eq!(path, written.log);
    assert!(text.contains("it is missing") && text.contains(".incomplete"), "{text}");
    fs::write(DataDirectory::incomplete(&path), "").unwrap();
    assert_eq!(nodes_of(&recovered(folder.path()).unwrap()), written.states[0]);
}

#[tokio::test]
async fn a_directory_of_the_former_form_opens_without_its_log_and_that_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let written = written(folder.path()).await;
    let snapshot = file(folder.path(), "snapshot.");
    let mut bytes = fs::read(&snapshot).unwrap();
    bytes[7] = b'1';
    fs::write(&snapshot, bytes).unwrap();
    assert!(!found(folder.path()).unwrap().1.lacks_log);
    fs::write(&written.log, "").unwrap();
    let text = found(folder.path()).unwrap().1.to_string();
    assert!(text.contains("missing or empty"), "{text}");
    fs::remove_file(&written.log).unwrap();
    let (state, found) = found(folder.path()).unwrap();
    assert!(found.lacks_log);
    assert_eq!(nodes_of(&state), written.states[0]);
}

/// A directory with the snapshot and the log of before the newest snapshot, and writes after each.
async fn two_generations(folder: &Path) -> ServerState {
    let (mut storage, mut state) = open(folder).unwrap();
    for number in 0..4 {
        let transaction = transaction(&mut state, number);
        store(&mut storage, &mut state, &transaction).await;
        if number == 1 {
            storage.finish_snapshot(&mut state).await;
        }
    }
    drop(storage);
    assert_eq!(nodes_of(&found_again(folder).0), nodes_of(&state));
    state
}

/// Gives the files of before the newest snapshot their names back, as the message about a damaged snapshot says.
fn go_back_to_the_previous(folder: &Path) {
    for name in names(folder) {
        if let Some(whole) = name.strip_suffix(".previous") {
            fs::rename(folder.join(&name), folder.join(whole)).unwrap();
        }
    }
}

#[tokio::test]
async fn a_damaged_snapshot_is_refused_and_the_previous_one_with_the_logs_gives_all_back() {
    // Within a life, the log was ended by the snapshot; between two lives by the second start.
    for lives in 1..=2 {
        let folder = tempfile::tempdir().unwrap();
        let state = two_generations(folder.path()).await;
        if lives == 2 {
            drop(open(folder.path()).unwrap());
            wait_until_free(folder.path());
        }
        let snapshot = file(folder.path(), "snapshot.");
        fs::write(&snapshot, "spoilt").unwrap();
        let (path, text) = damage(folder.path());
        assert_eq!(path, snapshot);
        for name in names(folder.path()).iter().filter(|name| name.ends_with(".previous")) {
            assert!(text.contains(name), "{text} does not name {name}");
        }
        fs::remove_file(snapshot).unwrap();
        go_back_to_the_previous(folder.path());
        assert_eq!(nodes_of(&recovered(folder.path()).unwrap()), nodes_of(&state), "lives: {lives}");
        drop(open(folder.path()).unwrap());
        assert_eq!(nodes_of(&reopen(folder.path())), nodes_of(&state));
    }
}

#[tokio::test]
async fn the_previous_snapshot_is_not_used_unasked() {
    let folder = tempfile::tempdir().unwrap();
    two_generations(folder.path()).await;
    fs::remove_file(file(folder.path(), "snapshot.")).unwrap();
    let (_, text) = damage(folder.path());
    assert!(text.contains("the snapshot it goes on from is missing") && text.contains(".previous"), "{text}");
    fs::remove_file(file(folder.path(), "log.")).unwrap();
    damage(folder.path());
    // The log of before says which one follows it.
    assert!(names(folder.path()).iter().any(|name| name.starts_with("log.")));
    go_back_to_the_previous(folder.path());
    let (_, text) = damage(folder.path());
    assert!(text.contains("it is missing"), "{text}");
}

/// Waits until the thread of a storage that was dropped has released the directory.
fn wait_until_free(folder: &Path) {
    while matches!(DataDirectory::open(folder), Err(StorageError::InUse { .. })) {
        std::thread::yield_now();
    }
}

/// What a start finds once the previous storage's thread has released the directory.
fn found_again(folder: &Path) -> (ServerState, Recovered) {
    wait_until_free(folder);
    found(folder).unwrap()
}

/// Opens again once the previous storage's thread has released the directory.
fn reopen(folder: &Path) -> ServerState {
    wait_until_free(folder);
    open(folder).unwrap().1
}

#[tokio::test]
async fn a_flipped_bit_is_refused_by_name_or_costs_the_last_record_alone() {
    let folder = tempfile::tempdir().unwrap();
    let written = written(folder.path()).await;
    let last = written.record_ends[written.record_ends.len() - 2];
    let end = *written.record_ends.last().unwrap();
    let marks = mark_offset(0)..HEADER_BYTES;
    let (mut refused, mut cut) = (0, 0);
    for at in 0..end {
        let copied = copy(folder.path());
        let log = copied.path().join(written.log.file_name().unwrap());
        let mut bytes = fs::read(&log).unwrap();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&log, bytes).unwrap();
        match recovered(copied.path()) {
            // There is another mark.
            Ok(state) if marks.contains(&at) => assert_eq!(nodes_of(&state), *written.states.last().unwrap()),
            Ok(state) => {
                assert!(at >= last, "a flip at {at} is in a record behind which others were acknowledged");
                assert_eq!(nodes_of(&state), written.states[written.states.len() - 2]);
                cut += 1;
            }
            Err(StorageError::Damaged { path, .. }) => {
                assert_eq!(path, log);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((refused, cut), (last - marks.len(), end - last));
}
