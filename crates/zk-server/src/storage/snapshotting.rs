//! A snapshot, taken in slices: the core writes down some nodes in each of its turns, and a thread writes them to the
//! file, which is a header with a checksum, and the state.
//!
//! The state is the one after a transaction, however much follows meanwhile: the tree's walk sees to that. What the
//! snapshot replaces is removed a piece at a time: a file that is removed at once frees all its blocks in one step of
//! the file system's journal, and each flush that needs the journal waits for that: on ext4 0.1 to 0.3 s for 100 MiB.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::jute::Writer;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::machine::ServerState;
use crate::record::{decode_state, encode_head, encode_node};
use crate::storage::directory::{DataDirectory, create_file};
use crate::storage::error::StorageError;
use crate::tree::DataTree;

/// How many nodes are looked at in one turn: clients wait some 0.1 ms for them.
const SLICE_NODES: usize = 128;
/// After how many bytes a slice ends earlier.
const SLICE_BYTES: usize = 256 << 10;
/// How many slices wait for the disk, before the next is taken.
const SLICES_WAITING_MAX: usize = 8;

#[derive(Debug)]
struct SnapshotPiece {
    bytes: Bytes,
    is_last: bool,
}

/// A snapshot that is being taken. Dropped before its last slice, it is given up, and nothing of it is left.
#[derive(Debug)]
pub(super) struct Snapshotting {
    zxid: i64,
    /// `None` when all slices were handed over, or the thread has given up.
    pieces: Option<mpsc::Sender<SnapshotPiece>>,
    /// How many nodes are still to come.
    nodes_left: usize,
    thread: JoinHandle<()>,
}

impl Snapshotting {
    /// Begins a snapshot of the state as it is. Nothing is written before `rolled` says that the log which goes on from
    /// it is made.
    /// Fails if the system gives no thread.
    pub(super) fn begin(
        directory: Arc<DataDirectory>,
        state: &mut ServerState,
        rolled: std_mpsc::Receiver<bool>,
    ) -> io::Result<Self> {
        let zxid = state.zxid;
        let (pieces, received) = mpsc::channel(SLICES_WAITING_MAX);
        let head = encode_head(state);
        let thread = thread::Builder::new().name("zk-server-snapshot".to_owned()).spawn(move || {
            if rolled.recv().unwrap_or(false)
                && let Err(error) = write_slices(&directory, zxid, &head, received)
            {
                tracing::warn!(
                    "{}: no snapshot could be written: {error}; the log grows on until one can be, and nothing is \
                     lost: make room, or look to the disk",
                    directory.snapshot_path(zxid).display()
                );
            }
        })?;
        state.tree.begin_walk(zxid);
        Ok(Self { zxid, pieces: Some(pieces), nodes_left: state.tree.len(), thread })
    }

    /// The transaction after which the state is.
    pub(super) const fn zxid(&self) -> i64 {
        self.zxid
    }

    /// Whether the thread has nothing to do any more.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the next slice can be taken; for ever if there is none.
    pub(super) async fn has_room(&self) {
        match &self.pieces {
            // Room that was there once is there until the core takes it.
            Some(pieces) => drop(pieces.reserve().await),
            None => std::future::pending().await,
        }
    }

    /// Takes the next slice, unless those before it still wait for the disk.
    pub(super) fn go_on(&mut self, tree: &mut DataTree) {
        let Some(pieces) = &self.pieces else {
            return;
        };
        let is_over = match pieces.try_reserve() {
            Ok(permit) => {
                let (bytes, is_last) = slice(tree, &mut self.nodes_left);
                permit.send(SnapshotPiece { bytes, is_last });
                is_last
            }
            Err(TrySendError::Full(())) => false,
            Err(TrySendError::Closed(())) => {
                tree.end_walk();
                true
            }
        };
        if is_over {
            self.pieces = None;
        }
    }

    /// Takes all slices that are left, and waits until the file is whole or given up.
    pub(super) async fn finish(mut self, tree: &mut DataTree) {
        while self.pieces.is_some() {
            self.has_room().await;
            self.go_on(tree);
        }
        // A thread that could not be waited for goes on alone; its file is whole or not there.
        let _ = tokio::task::spawn_blocking(move || self.thread.join()).await;
    }

    /// Gives the snapshot up, unless all slices were handed over, and waits until the thread leaves the directory
    /// alone.
    pub(super) fn give_up(self) {
        drop(self.pieces);
        let _ = self.thread.join();
    }
}

/// Writes down some nodes; whether they are the last.
fn slice(tree: &mut DataTree, nodes_left: &mut usize) -> (Bytes, bool) {
    let mut writer = Writer::new();
    let goes_on = tree.go_on_walking(SLICE_NODES, |node| {
        encode_node(&mut writer, node);
        *nodes_left = nodes_left.wrapping_sub(1);
        if writer.len() < SLICE_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    debug_assert!(goes_on || *nodes_left == 0, "{nodes_left} nodes were not seen");
    (writer.into_bytes().freeze(), !goes_on)
}

/// Writes the file of a snapshot whose pieces come by and by; without the last one it is given up.
fn write_slices(
    directory: &DataDirectory,
    zxid: i64,
    head: &[u8],
    mut pieces: mpsc::Receiver<SnapshotPiece>,
) -> io::Result<()> {
    let path = directory.snapshot_path(zxid);
    let mut file = SnapshotFile::create(&path)?;
    file.write(head)?;
    while let Some(SnapshotPiece { bytes, is_last }) = pieces.blocking_recv() {
        file.write(&bytes)?;
        if is_last {
            file.finish(directory, &path)?;
            directory.supersede(zxid, remove_piecewise);
            return Ok(());
        }
    }
    Ok(())
}

/// Writes a snapshot of the state as it is, at once.
/// Fails if the system does; the earlier files are unchanged.
pub(super) fn write_at_once(directory: &DataDirectory, state: &mut ServerState) -> io::Result<()> {
    let path = directory.snapshot_path(state.zxid);
    let mut file = SnapshotFile::create(&path)?;
    file.write(&encode_head(state))?;
    state.tree.begin_walk(state.zxid);
    let mut nodes_left = state.tree.len();
    loop {
        let (bytes, is_last) = slice(&mut state.tree, &mut nodes_left);
        let written = file.write(&bytes);
        if written.is_err() {
            state.tree.end_walk();
        }
        written?;
        if is_last {
            return file.finish(directory, &path);
        }
    }
}

/// Begins each snapshot; the last character is the version of the form.
const MAGIC: &[u8; 8] = b"LKZKSNP2";
/// Begins each snapshot of the former form.
const MAGIC_FORMER: &[u8; 8] = b"LKZKSNP1";
/// The magic, the length of the state and its checksum.
const HEADER_BYTES: usize = 20;
/// After how many bytes a piece is flushed: the log's flushes wait behind it, so it is a short one.
const FLUSH_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SnapshotForm {
    /// The log that goes on from it was made before it.
    Current,
    /// That log was made after it, and may be missing.
    Former,
}

/// A snapshot that is being written. Until it is finished it has another name; dropped before, it is removed.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    file: File,
    unfinished: PathBuf,
    length: u64,
    checksum: crc32fast::Hasher,
    unflushed_bytes: usize,
    is_finished: bool,
}

impl SnapshotFile {
    /// Begins a snapshot that is to have the name `path`.
    /// Fails if the system does; the earlier files are unchanged.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let unfinished = DataDirectory::unfinished(path);
        let file = create_file(&unfinished)?;
        let checksum = crc32fast::Hasher::new();
        let mut begun = Self { file, unfinished, length: 0, checksum, unflushed_bytes: 0, is_finished: false };
        begun.file.write_all(&[0; HEADER_BYTES])?;
        Ok(begun)
    }

    /// Writes the next piece of the state.
    pub(super) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        self.checksum.update(piece);
        self.length += piece.len() as u64;
        self.unflushed_bytes += piece.len();
        if self.unflushed_bytes >= FLUSH_BYTES {
            self.unflushed_bytes = 0;
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Ends the snapshot and gives it its name, for good.
    /// Fails if the system does; the earlier files are unchanged.
    pub(super) fn finish(mut self, directory: &DataDirectory, path: &Path) -> io::Result<()> {
        let checksum = std::mem::take(&mut self.checksum).finalize();
        let header = [&MAGIC[..], &self.length.to_be_bytes(), &checksum.to_be_bytes()].concat();
        self.file.write_all_at(&header, 0)?;
        self.file.sync_all()?;
        directory.finish(path)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // What cannot be removed now is overwritten by the next attempt, or removed after it.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

pub(super) fn read_snapshot(path: &Path, tick: Duration) -> Result<(ServerState, SnapshotForm), StorageError> {
    let bytes = Bytes::from(fs::read(path).map_err(|error| StorageError::io(path, error))?);
    let form = match bytes.first_chunk() {
        Some(MAGIC) if bytes.len() >= HEADER_BYTES => SnapshotForm::Current,
        Some(MAGIC_FORMER) if bytes.len() >= HEADER_BYTES => SnapshotForm::Former,
        _ => return Err(StorageError::damaged(path, "it does not begin as a snapshot does")),
    };
    let state = bytes.slice(HEADER_BYTES..);
    let length = (state.len() as u64).to_be_bytes();
    let checksum = crc32fast::hash(&state).to_be_bytes();
    if bytes[8..16] != length || bytes[16..HEADER_BYTES] != checksum {
        return Err(StorageError::damaged(path, "its checksum is wrong"));
    }
    let state = decode_state(state, tick).map_err(|error| StorageError::damaged(path, error.to_string()))?;
    Ok((state, form))
}

/// What is cut off in one step, in bytes: as much as a snapshot flushes in one.
const PIECE_BYTES: u64 = 1 << 20;

/// Cuts a file shorter, flush by flush, and removes it.
/// Fails if the system does; the file is shorter then, or as it was.
fn remove_piecewise(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let mut length = file.metadata()?.len();
    while length > 0 {
        length = length.saturating_sub(PIECE_BYTES);
        file.set_len(length)?;
        file.sync_data()?;
    }
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_any_length_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        for length in [0, 1, PIECE_BYTES, 2 * PIECE_BYTES + 1] {
            fs::write(&path, vec![7; usize::try_from(length).unwrap()]).unwrap();
            remove_piecewise(&path).unwrap();
            assert!(!path.exists(), "{length} bytes");
        }
        assert_eq!(remove_piecewise(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
