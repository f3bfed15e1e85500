//! `--state`: the file that has what a monitor knows of its alerts, for its next start. What stands in it,
//! `lockkeeper-monitor` knows.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lockkeeper_monitor::alerts::AlertNotes;

use crate::exit::CommandFailure;
use crate::locked::locked;

/// The longest file that is read and written, in bytes: the notes of some ten thousand alerts.
pub(super) const STATE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Who may read and write it: alerts name locks and their owners.
const MODE: u32 = 0o600;

/// A file that is replaced as a whole, so that it is never half written.
#[derive(Clone, Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// Where the next state is written, beside it.
    next: PathBuf,
    /// The number of the state that was written last.
    saved: Arc<Mutex<u64>>,
}

impl StateFile {
    /// Reads the file, if it is there.
    /// Fails if nothing can be made of it: it stays as it is.
    pub(crate) fn open(path: &Path, service: &str) -> Result<(Self, Option<AlertNotes>), CommandFailure> {
        let refuse = |what: String| CommandFailure::ours(format!("--state: {}: {what}", path.display()));
        let Some(name) = path.file_name() else { return Err(refuse("it names no file".to_owned())) };
        let mut next = std::ffi::OsString::from(".");
        next.push(name);
        next.push(".next");
        let file = Self { path: path.to_owned(), next: path.with_file_name(next), saved: Arc::default() };
        let Some(bytes) = read(path).map_err(|error| refuse(format!("cannot be read: {error}")))? else {
            return Ok((file, None));
        };
        let notes = AlertNotes::decode(&bytes, service).map_err(|error| {
            refuse(format!(
                "it {error}; it is left as it is: name another file, or move it away, and what is wrong now is told \
                 again"
            ))
        })?;
        Ok((file, Some(notes)))
    }

    /// Replaces the file, unless a state of a greater number was written meanwhile. What was there before is there
    /// until the new one is on the disk.
    pub(crate) fn save(&self, (number, bytes): &(u64, Vec<u8>)) -> io::Result<()> {
        let mut saved = locked(&self.saved);
        if *number < *saved {
            return Ok(());
        }
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let options =
            OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).custom_flags(flags).to_owned();
        let mut next = options.open(&self.next)?;
        // It may be left over, from a monitor that was killed.
        next.set_permissions(PermissionsExt::from_mode(MODE))?;
        next.write_all(bytes)?;
        next.sync_all()?;
        std::fs::rename(&self.next, &self.path)?;
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
        *saved = *number;
        Ok(())
    }

    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(found) if !found.is_file() => return Err(io::Error::other("it is no regular file")),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(STATE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() {
        0..=STATE_BYTES_MAX => Ok(Some(bytes)),
        _ => Err(io::Error::other(format!("it is longer than {STATE_BYTES_MAX} bytes"))),
    }
}
