//! The directory that keeps the history over a restart: files of lines, of which the oldest are removed.
//!
//! Each start begins a file, so that nothing follows a torn end. `lockkeeper verify DIR/*.jsonl` reads them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_monitor::Collector;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use tokio::time::{MissedTickBehavior, interval};

use crate::exit::CommandFailure;
use crate::output::say;

/// How often is written: as much may be lost when the monitor is killed.
const PERIOD: Duration = Duration::from_secs(1);

/// Each of so many times it is written that the monitor is there, so that a gap begins no earlier before its end.
const SEEN_EACH: u32 = 10;

/// How long a file becomes: one of a few seconds to read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// How long all files are together; memory has room for as many holds.
const BYTES_MAX: u64 = 256 << 20;

/// How many files there are, also if each start begins one and ends soon.
const FILES_MAX: usize = 1_000;

const SUFFIX: &str = ".jsonl";

/// A directory that is written to.
#[derive(Debug)]
pub(super) struct HistoryDirectory {
    path: PathBuf,
    /// Keeps other monitors out as long as it is open.
    _lock: File,
    files: Mutex<HistoryFiles>,
}

#[derive(Debug, Default)]
struct HistoryFiles {
    /// The number of the file that is written to, or of the last one.
    number: u64,
    written: Option<(File, u64)>,
    is_failing: bool,
}

impl HistoryDirectory {
    /// Opens a directory, or makes it, and has the collector know what is in it.
    pub(super) fn open(path: &Path, collector: &Collector, machine: &str) -> Result<Self, CommandFailure> {
        let failed =
            |what: io::Error| CommandFailure::ours(format!("--history: cannot use {}: {what}", path.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let lock = File::open(path).map_err(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| failed(io::Error::other("another monitor writes to it; give each a directory of its own")))?;
        let (mut torn, mut number) = (0, 0);
        for (file_number, file) in listed(path).map_err(failed)? {
            let bytes = fs::read(&file).map_err(failed)?;
            torn += collector.with_history(|history, _| history.load(&String::from_utf8_lossy(&bytes)));
            number = file_number;
        }
        if torn > 0 {
            let lines = if torn == 1 { "1 torn line" } else { &format!("{torn} torn lines") };
            say(&format!("the history in {} goes on without {lines}", path.display()));
        }
        collector.with_history(|history, _| history.keep(machine.to_owned()));
        let files = Mutex::new(HistoryFiles { number, ..HistoryFiles::default() });
        let this = Self { path: path.to_owned(), _lock: lock, files };
        // One that cannot be written at all is of no use.
        this.append("").map_err(failed)?;
        Ok(this)
    }

    /// Writes until the future is dropped.
    pub(super) async fn run(self: &Arc<Self>, collector: &Collector) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for tick in (0..SEEN_EACH).cycle() {
            ticks.tick().await;
            let (text, left_out) =
                collector.with_history(|history, now| history.take_unwritten((tick == 0).then_some(now)));
            let this = Arc::clone(self);
            let written = tokio::task::spawn_blocking(move || this.write(&text, left_out));
            if let Err(Ok(panic)) = written.await.map_err(tokio::task::JoinError::try_into_panic) {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Writes the rest.
    pub(super) fn finish(&self, collector: &Collector) {
        let (text, left_out) = collector.with_history(|history, now| history.take_unwritten(Some(now)));
        self.write(&text, left_out);
    }

    fn write(&self, text: &str, left_out: u64) {
        let path = self.path.display();
        if left_out > 0 {
            say(&format!("warning: {left_out} lines of the history in {path} are left out: the disk is too slow"));
        }
        let written = self.append(text);
        let was_failing = std::mem::replace(&mut self.files.lock().is_failing, written.is_err());
        match written {
            Err(error) if !was_failing => {
                say(&format!("warning: cannot write the history in {path}: {error}; lines are left out"));
            }
            Ok(()) if was_failing => say(&format!("the history in {path} is written again")),
            _ => {}
        }
    }

    fn append(&self, text: &str) -> io::Result<()> {
        let mut files = self.files.lock();
        if files.written.as_ref().is_none_or(|(_, bytes)| *bytes >= FILE_BYTES_MAX) {
            files.number += 1;
            let file = self.path.join(format!("locks-{:08}{SUFFIX}", files.number));
            let file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(file)?;
            files.written = Some((file, 0));
            remove_oldest(&self.path)?;
        }
        let Some((file, bytes)) = &mut files.written else { return Ok(()) };
        *bytes += text.len() as u64;
        let written = file.write_all(text.as_bytes());
        if written.is_err() {
            // Its end may be torn.
            files.written = None;
        }
        written
    }
}

/// Returns the files of a history with their numbers, the oldest first.
fn listed(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("locks-").and_then(|name| name.strip_suffix(SUFFIX));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files)
}

/// Removes the oldest files beyond what is kept.
fn remove_oldest(directory: &Path) -> io::Result<()> {
    let mut bytes = 0;
    for (place, (_, file)) in listed(directory)?.into_iter().rev().enumerate() {
        bytes += fs::metadata(&file)?.len();
        if place >= FILES_MAX || bytes > BYTES_MAX {
            fs::remove_file(&file)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_files_are_removed_and_others_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        for number in 1..=FILES_MAX + 3 {
            fs::write(path.join(format!("locks-{number:08}.jsonl")), "").unwrap();
        }
        fs::write(path.join("notes.jsonl"), "").unwrap();
        remove_oldest(path).unwrap();
        let left = listed(path).unwrap();
        assert_eq!((left.len(), left[0].0), (FILES_MAX, 4));
        assert!(path.join("notes.jsonl").exists());
        File::create(path.join("locks-00002000.jsonl")).unwrap().set_len(BYTES_MAX + 1).unwrap();
        remove_oldest(path).unwrap();
        assert!(listed(path).unwrap().is_empty(), "one that is too long alone goes too");
    }
}
