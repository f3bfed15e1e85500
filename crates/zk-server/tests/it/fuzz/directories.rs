//! Data directories: a snapshot and the logs since, as a crash, a bad disk or another program left them.
//!
//! A directory of the corpus is what a server left that was stopped suddenly, and a file `paths` of every path that
//! ever was in it.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use lockkeeper_zk_proto::message::{ZkRequest, ZkResponse};
use lockkeeper_zk_server::{EmbeddedServer, ServerError, StorageError};
use proptest::prelude::*;
use tempfile::TempDir;

use super::mutation::{Mutation, config, entries, mutations};
use crate::client::Client;

const KIND: &str = "directories";
const PATHS_NAME: &str = "paths";
/// A log's magic and number, in bytes.
const LOG_BEGIN_BYTES: usize = 16;
/// Begins a log whose header has two marks besides.
const MAGIC_WITH_MARKS: &[u8; 8] = b"LKZKLOG2";
/// Two marks, each the length that the file had when it was flushed, and a checksum.
const MARKS_BYTES: usize = 2 * 12;
/// A record's length, checksum, and how far the log was flushed, in bytes.
const RECORD_HEADER_BYTES: usize = 16;

/// What a server finds in a directory, or why it will not start.
fn load(directory: &Path) -> Result<BTreeSet<String>, ServerError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = loop {
            let builder = EmbeddedServer::builder().without_listener().data_dir(directory);
            match builder.start().await {
                // A server that was dropped releases it a moment later.
                Err(ServerError::Storage(StorageError::InUse { .. })) => tokio::task::yield_now().await,
                started => break started?,
            }
        };
        let mut client = Client::duplex(&server).await;
        let mut found = BTreeSet::new();
        let mut next = vec!["/".to_owned()];
        while let Some(path) = next.pop() {
            let listed = client.ask(ZkRequest::GetChildren { path: path.clone(), watch: false }).await.unwrap();
            let Ok(ZkResponse::GetChildren { children }) = listed else {
                // Some lists may not be read by all.
                continue;
            };
            let children: Vec<_> =
                children.iter().map(|name| format!("{}/{name}", path.trim_end_matches('/'))).collect();
            found.extend(children.iter().cloned());
            next.extend(children);
        }
        client.ask(ZkRequest::CloseSession).await.unwrap().unwrap();
        server.shutdown().await;
        Ok(found)
    })
}

/// Starts twice: it is found the same the second time, or refused with a sentence that names a file.
fn check(directory: &Path) -> Option<BTreeSet<String>> {
    match load(directory) {
        Ok(found) => {
            assert_eq!(load(directory).unwrap(), found, "a second start finds what the first did");
            Some(found)
        }
        Err(error) => {
            let (name, cause) = (directory.to_string_lossy(), error.source().expect("a cause").to_string());
            assert!(cause.contains(&*name), "{cause:?} does not say which file");
            None
        }
    }
}

/// A copy that may be changed.
fn copy(directory: &Path) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for path in files_of(directory) {
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

/// The snapshots and logs.
fn files_of(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| !path.ends_with(PATHS_NAME)).collect();
    paths.sort();
    paths
}

/// Every path that ever was in a directory, and those of the service.
fn known_paths(directory: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(directory.join(PATHS_NAME)).unwrap();
    let service = ["/zookeeper", "/zookeeper/config", "/zookeeper/quota"];
    text.lines().chain(service).map(str::to_owned).collect()
}

/// Gives the marks of a log the length that it has.
fn with_marks(log: &mut [u8]) {
    let length = (log.len() as u64).to_be_bytes();
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&log[8..LOG_BEGIN_BYTES]);
    hasher.update(&length);
    let mark = [&length[..], &hasher.finalize().to_be_bytes()].concat();
    log[LOG_BEGIN_BYTES..LOG_BEGIN_BYTES + MARKS_BYTES].copy_from_slice(&mark.repeat(2));
}

/// The length of a log's header.
fn header_bytes(log: &[u8]) -> usize {
    let has_marks = log.starts_with(MAGIC_WITH_MARKS) && log.len() >= LOG_BEGIN_BYTES + MARKS_BYTES;
    LOG_BEGIN_BYTES + if has_marks { MARKS_BYTES } else { 0 }
}

/// Gives every record of a log the checksum it should have, so that what was changed is read at all.
fn with_checksums(log: &mut [u8]) {
    if log.len() < LOG_BEGIN_BYTES {
        return;
    }
    let zxid: [u8; 8] = log[8..LOG_BEGIN_BYTES].try_into().unwrap();
    let mut offset = header_bytes(log);
    if offset > LOG_BEGIN_BYTES {
        with_marks(log);
    }
    while let Some(header) = log.get(offset..offset + RECORD_HEADER_BYTES) {
        let length = u32::from_be_bytes(header[..4].try_into().unwrap()) as usize;
        let Some(end) =
            (offset + RECORD_HEADER_BYTES).checked_add(length).filter(|end| length > 0 && *end <= log.len())
        else {
            return;
        };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&zxid);
        hasher.update(&(offset as u64).to_be_bytes());
        hasher.update(&log[offset + 8..end]);
        log[offset + 4..offset + 8].copy_from_slice(&hasher.finalize().to_be_bytes());
        offset = end;
    }
}

fn is_log(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log."))
}

#[test]
fn the_checksums_made_here_are_the_servers() {
    for whole in ["first-life", "current-form"] {
        let directory = entries(KIND).into_iter().find(|directory| directory.ends_with(whole)).unwrap();
        let path = files_of(&directory).into_iter().find(|path| is_log(path)).unwrap();
        let log = fs::read(path).unwrap();
        let mut again = log.clone();
        with_checksums(&mut again);
        assert_eq!(again, log);
        let last = again.iter().rposition(|byte| *byte != 0).unwrap();
        again[last] ^= 1;
        with_checksums(&mut again);
        assert_ne!(again[LOG_BEGIN_BYTES..last], log[LOG_BEGIN_BYTES..last], "it reaches the last record");
    }
}

#[test]
fn the_kept_directories_are_recovered_or_refused() {
    for directory in entries(KIND) {
        let found = check(copy(&directory).path());
        let is_refused = directory.file_name().unwrap().to_string_lossy().starts_with("refused-");
        assert_eq!(found.is_none(), is_refused, "{}", directory.display());
        let known = known_paths(&directory);
        assert!(found.unwrap_or_default().is_subset(&known), "{}", directory.display());
    }
}

fn changed_directory() -> impl Strategy<Value = (PathBuf, usize, Vec<Mutation>)> {
    (prop::sample::select(entries(KIND)), any::<usize>(), mutations())
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn of_changed_directories_nothing_is_found_that_never_was((directory, file, mutations) in changed_directory()) {
        let copy = copy(&directory);
        let files = files_of(copy.path());
        let path = &files[file % files.len()];
        let mut bytes = fs::read(path).unwrap();
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        fs::write(path, bytes).unwrap();
        let found = check(copy.path()).unwrap_or_default();
        let invented: Vec<_> = found.difference(&known_paths(&directory)).cloned().collect();
        prop_assert!(invented.is_empty(), "invented: {:?}", invented);
    }

    #[test]
    fn changed_records_with_good_checksums_are_taken_or_refused((directory, file, mutations) in changed_directory()) {
        let copy = copy(&directory);
        let logs: Vec<_> = files_of(copy.path()).into_iter().filter(|path| is_log(path)).collect();
        let Some(path) = logs.get(file % logs.len().max(1)) else {
            return Ok(());
        };
        let mut bytes = fs::read(path).unwrap();
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        with_checksums(&mut bytes);
        fs::write(path, bytes).unwrap();
        check(copy.path());
    }
}
