//! Histories of what this program holds, in a file that `lockkeeper verify` judges. With the feature `history`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use lockkeeper::history::HistoryFile;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("locks.jsonl");
//! let keeper = lockkeeper::builder("memory:")?.observer(Arc::new(HistoryFile::append(&path)?)).build();
//! keeper.mutex("nightly-backup")?.lock().await?.release().await?;
//! # assert_eq!(std::fs::read_to_string(&path)?.lines().count(), 2);
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_core::clock::{Clock as _, SystemClock};
use lockkeeper_core::{Owner, randomness};
use lockkeeper_recipes::{Event, Observer};

pub use lockkeeper_history::{BrokenPromise, HistoryLine, LineEvent, NamedHold, Verified, verify};

/// Where Linux says which boot this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// An [`Observer`] that appends a line of JSON to a file for each grant of its keeper, and for each end of one.
///
/// Many keepers and processes may append to one file: each line is one write. The file grows by some 250 bytes an event
/// and is never shortened here; it may be moved away, and a program that starts later makes it anew. A line that cannot
/// be written is left out, and the log says so once: a full disk keeps no program from its locks.
///
/// Write the locks of each service into files for themselves: lines do not name the service.
pub struct HistoryFile {
    path: PathBuf,
    file: File,
    boot: String,
    process: String,
    is_failing: AtomicBool,
}

impl HistoryFile {
    /// Opens a file, or makes it.
    ///
    /// # Errors
    ///
    /// The system's, such as a folder that is not there.
    pub fn append(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().to_owned();
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        let owner = Owner::this_process();
        let process = format!("{}:{}:{:x}", owner.host, owner.pid, randomness::spread());
        // Without one, times of this process are compared with those of no other but by the wall clock.
        let boot = fs::read_to_string(BOOT_ID).map_or_else(|_| process.clone(), |boot| boot.trim().to_owned());
        Ok(Self { path, file, boot, process, is_failing: AtomicBool::new(false) })
    }

    fn write(&self, lock: &str, event: LineEvent) {
        let clock = SystemClock;
        let line = HistoryLine {
            boot: self.boot.clone(),
            process: self.process.clone(),
            at_ns: clock.now().as_nanos(),
            unix_ms: u64::try_from(clock.unix_time().as_millis()).unwrap_or(u64::MAX),
            lock: lock.to_owned(),
            event,
        };
        let written = (&self.file).write_all(format!("{}\n", line.write()).as_bytes());
        let was_failing = self.is_failing.swap(written.is_err(), Ordering::Relaxed);
        if let Err(error) = written
            && !was_failing
        {
            let path = self.path.display();
            tracing::warn!(target: "lockkeeper", %path, %error, "the history cannot be written; lines are left out");
        }
    }
}

impl Observer for HistoryFile {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Granted { lock, mode, token, .. } => self.write(lock.as_str(), LineEvent::granted(*mode, token)),
            Event::Released { lock, token, lost: None, .. } => {
                self.write(lock.as_str(), LineEvent::Released { token: token.to_string() });
            }
            Event::Lost { lock, token, reason, late } => {
                let late_ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
                let (token, reason) = (token.to_string(), reason.as_str().to_owned());
                self.write(lock.as_str(), LineEvent::Lost { token, reason, late_ns });
            }
            _ => {}
        }
    }
}

impl fmt::Debug for HistoryFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HistoryFile").field("path", &self.path).finish_non_exhaustive()
    }
}
