//! Takes a snapshot in slices: the core writes down some nodes in each of its turns, and a thread writes them to the
//! file.
//!
//! The state is the one after a transaction, however much follows meanwhile: the tree's walk sees to that.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use lockkeeper_zk_proto::jute::Writer;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::machine::ServerState;
use crate::record::{encode_head, encode_node};
use crate::storage::directory::DataDirectory;
use crate::storage::piecewise;
use crate::storage::snapshot_file::SnapshotFile;
use crate::tree::DataTree;

/// How many nodes are looked at in one turn: clients wait some 0.1 ms for them.
const SLICE_NODES: usize = 128;
/// After how many bytes a slice ends earlier.
const SLICE_BYTES: usize = 256 << 10;
/// How many slices wait for the disk, before the next is taken.
const SLICES_WAITING_MAX: usize = 8;

/// A piece of the file.
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
    ///
    /// # Errors
    ///
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
                && let Err(error) = write(&directory, zxid, &head, received)
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
fn write(
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
            directory.supersede(zxid, piecewise::remove);
            return Ok(());
        }
    }
    Ok(())
}

/// Writes a snapshot of the state as it is, at once.
///
/// # Errors
///
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
