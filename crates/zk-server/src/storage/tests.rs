//! Directories that were cut, damaged or left half-way, as a whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::message::Acl;

use crate::machine::{Seed, State};
use crate::record::{encode_state, encode_transaction};
use crate::storage::directory::Directory;
use crate::storage::error::StorageError;
use crate::storage::handle::{Storage, StorageEvent};
use crate::storage::log::record_bytes;
use crate::storage::recovery::recover;
use crate::tree::{Change, Owner, Transaction};

const TICK: Duration = Duration::from_secs(2);
const WALL_MS: i64 = 1_800_000_000_000;
const RECORDS: i64 = 5;

/// What a directory held after each record, the state before the first one at the front.
struct Written {
    states: Vec<Bytes>,
    log: PathBuf,
    record_ends: Vec<usize>,
}

fn first_state() -> State {
    let seed = Seed { secret: [1; 32], wall_ms: WALL_MS };
    State::new(TICK, seed)
}

fn open(folder: &Path) -> Result<(Storage, State), StorageError> {
    Storage::open(folder, TICK, WALL_MS, first_state)
}

fn transaction(state: &mut State, number: i64) -> Transaction {
    Transaction {
        zxid: state.zxid + 1,
        time_ms: WALL_MS + number,
        changes: vec![
            Change::Create {
                path: format!("/n{number}").into(),
                data: Some(vec![number as u8; 3].into()),
                access: state.tree.share_access(vec![Acl::open()]),
                owner: Owner::Nothing,
            },
            Change::SetData { path: "/".into(), data: None },
        ],
    }
}

/// A directory whose server was killed after some records, each of them flushed.
async fn written(folder: &Path) -> Written {
    let (mut storage, mut state) = open(folder).unwrap();
    let log = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log."))
        .unwrap();
    let mut written = Written { states: vec![nodes_of(&state)], log, record_ends: vec![16] };
    for number in 0..RECORDS {
        let transaction = transaction(&mut state, number);
        let record = encode_transaction(&transaction);
        written.record_ends.push(written.record_ends.last().unwrap() + record_bytes(&record));
        storage.append(vec![record]);
        assert_eq!(storage.next_event().await, StorageEvent::Stored(1));
        state.replay(&transaction).unwrap();
        written.states.push(nodes_of(&state));
    }
    drop(storage);
    // Without the zeros ahead, which are a mebibyte to be copied each time.
    let end = *written.record_ends.last().unwrap() as u64 + 64;
    fs::File::options().write(true).open(&written.log).unwrap().set_len(end).unwrap();
    written
}

/// What a start would find, without starting.
fn recovered(folder: &Path) -> Result<State, StorageError> {
    recover(&Directory::open(folder)?, TICK).map(|state| state.expect("a state was stored"))
}

/// The state but for the number of the latest transaction, which each start moves ahead.
fn nodes_of(state: &State) -> Bytes {
    encode_state(state).slice(8..)
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[tokio::test]
async fn a_log_cut_at_any_byte_gives_back_the_records_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let written = written(folder.path()).await;
    let end = *written.record_ends.last().unwrap();
    for length in 16..=end {
        let copied = tempfile::tempdir().unwrap();
        copy(folder.path(), copied.path());
        let log = copied.path().join(written.log.file_name().unwrap());
        fs::File::options().write(true).open(&log).unwrap().set_len(length as u64).unwrap();
        let state = recovered(copied.path()).unwrap();
        let whole = written.record_ends.iter().filter(|end| **end <= length).count();
        assert_eq!(nodes_of(&state), written.states[whole - 1], "cut at {length}");
        if length % 50 == 0 {
            // What was recovered is kept: the next start finds the same.
            drop(open(copied.path()).unwrap());
            assert_eq!(nodes_of(&reopen(copied.path())), written.states[whole - 1]);
        }
    }
}

/// Opens again once the previous storage's thread has released the directory.
fn reopen(folder: &Path) -> State {
    loop {
        match open(folder) {
            Ok((_, state)) => return state,
            Err(StorageError::InUse { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_flipped_bit_is_refused_by_name_or_costs_the_last_record_alone() {
    let folder = tempfile::tempdir().unwrap();
    let written = written(folder.path()).await;
    let last = written.record_ends[written.record_ends.len() - 2];
    let end = *written.record_ends.last().unwrap();
    let (mut refused, mut cut) = (0, 0);
    for at in 0..end {
        let copied = tempfile::tempdir().unwrap();
        copy(folder.path(), copied.path());
        let log = copied.path().join(written.log.file_name().unwrap());
        let mut bytes = fs::read(&log).unwrap();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&log, bytes).unwrap();
        match recovered(copied.path()) {
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
    assert_eq!((refused, cut), (last, end - last));
}

#[tokio::test]
async fn a_snapshot_makes_earlier_files_superfluous_and_can_be_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let (mut storage, mut state) = open(folder.path()).unwrap();
    for number in 0..4 {
        let transaction = transaction(&mut state, number);
        storage.append(vec![encode_transaction(&transaction)]);
        state.replay(&transaction).unwrap();
        if number % 2 == 1 {
            storage.take_snapshot(&state);
        }
    }
    storage.close(&state).await;
    let names = || -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let (log, snapshot) = (format!("log.{:016x}", state.zxid), format!("snapshot.{:016x}", state.zxid));
    assert_eq!(names(), ["lock", &log, &snapshot]);
    // A snapshot that was being written when the server ended is no snapshot.
    fs::write(folder.path().join("snapshot.7fffffffffffffff.unfinished"), "torn").unwrap();
    let again = reopen(folder.path());
    assert_eq!(nodes_of(&again), nodes_of(&state));
}

#[test]
fn a_log_without_its_snapshot_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("log.0000000000000001"), [0; 16]).unwrap();
    assert!(matches!(open(folder.path()), Err(StorageError::Damaged { .. })));
}
