//! The one counter of a base directory, its file, flock and flushes: each number, in any queue, is greater than all
//! numbers before it.

mod record;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockkeeper_core::{Error, ErrorKind, Operation, Result};
use rustix::fs::FileType;
use rustix::io::Errno;

use record::{Ceiling, CounterRecord, RECORD_BYTES};

use crate::base::Base;
use crate::errors::{errno_of, failed};
use crate::shared_files::{self, Patience};
pub(crate) use record::BootId;

/// The counter's name in the base directory.
const FILE_NAME: &str = "counter";

/// How often a counter that was wiped meanwhile is opened anew before we give up: it would have to be deleted as often
/// within one call.
const REOPENS_MAX: u32 = 16;

/// Where the kernel tells one run of the machine from the next.
const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// Reads the identity of this run of the machine.
pub(crate) fn boot_id() -> Result<BootId> {
    let cannot = || {
        let message = format!("cannot read {BOOT_ID_PATH}, without which a reboot cannot be told: mount /proc");
        Error::permanent(ErrorKind::Unsupported, Operation::Connect, message)
    };
    let text = std::fs::read_to_string(BOOT_ID_PATH).map_err(|source| match errno_of(&source) {
        errno @ (Errno::MFILE | Errno::NFILE) => failed(Operation::Connect, "read", Path::new(BOOT_ID_PATH), errno),
        _ => cannot().caused_by(source),
    })?;
    BootId::parse(text.trim()).ok_or_else(cannot)
}

/// An answer of the counter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Numbering {
    /// This number is ours alone.
    Number(u64),
    /// It would have to wait for others or for the disk, and was asked not to.
    Busy,
}

/// An open counter. Its flock belongs to this opening, so it is for one thread at a time.
#[derive(Debug)]
pub(crate) struct Counter {
    base: Arc<Base>,
    path: PathBuf,
    boot: BootId,
    file: Option<OwnedFd>,
}

impl Counter {
    /// Prepares to count; nothing is opened yet.
    pub(crate) fn new(base: Arc<Base>, boot: BootId) -> Self {
        let path = base.path.join(FILE_NAME);
        Self { base, path, boot, file: None }
    }

    /// Opens the file if it is there and we may write it; tells whether it is open.
    pub(crate) fn open_if_there(&mut self) -> Result<bool> {
        if !self.path.exists() {
            return Ok(false);
        }
        match self.open() {
            Err(error) if error.kind() == ErrorKind::Refused => Ok(false),
            opened => opened.map(|()| true),
        }
    }

    /// Opens the file, and makes it if it is missing; fails if we may not write there.
    pub(crate) fn open(&mut self) -> Result<()> {
        if self.file.is_none() {
            let room = shared_files::require_room(RECORD_BYTES);
            room.map_err(|errno| failed(Operation::Connect, "write the counter", &self.path, errno))?;
            let file = self.base.open_shared_file(FILE_NAME)?;
            let found = rustix::fs::fstat(&file)
                .map_err(|errno| failed(Operation::Connect, "look at the counter", &self.path, errno))?;
            if !FileType::from_raw_mode(found.st_mode).is_file() {
                return Err(misplaced(&self.path));
            }
            self.file = Some(file);
        }
        Ok(())
    }

    /// Takes the next number above `floor`.
    pub(crate) fn next(&mut self, floor: u64, patience: Patience<'_>) -> Result<Numbering> {
        for _ in 0..REOPENS_MAX {
            self.open()?;
            let file = self.file.as_ref().expect("the counter was just opened");
            let locked = shared_files::lock(file, patience)
                .map_err(|errno| failed(Operation::Join, "lock the counter", &self.path, errno))?;
            if !locked {
                return Ok(Numbering::Busy);
            }
            let outcome = match shared_files::leads_to(&self.path, file) {
                Ok(true) => take(file, &self.path, &self.base, self.boot, floor, patience).map(Some),
                Ok(false) => Ok(None),
                Err(errno) => Err(failed(Operation::Join, "look at the counter", &self.path, errno)),
            };
            shared_files::unlock(file);
            match outcome? {
                Some(numbering) => return Ok(numbering),
                // The directory was wiped or replaced: the next opening takes the counter that is there now, or makes a
                // new one, seeded from the clock.
                None => self.file = None,
            }
        }
        let message = format!("the counter in {} is deleted again and again", self.base.path.display());
        Err(Error::transient(ErrorKind::Backend, Operation::Join, message))
    }
}

/// Reads, counts and writes; under the flock.
fn take(
    file: &OwnedFd,
    path: &Path,
    base: &Base,
    boot: BootId,
    floor: u64,
    patience: Patience<'_>,
) -> Result<Numbering> {
    let read = |errno| failed(Operation::Join, "read the counter", path, errno);
    let write = |errno| failed(Operation::Join, "write the counter", path, errno);
    let mut content = [0; RECORD_BYTES + 1];
    let length = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut content, 0)).map_err(read)?;
    let current = CounterRecord::parse(&content[..length]).map_err(|_| damaged(path))?;
    let taken = record::take(current, boot, floor, base.clock.unix_time()).map_err(|_| exhausted(path))?;
    if taken.needs_flush {
        if matches!(patience, Patience::Now) {
            return Ok(Numbering::Busy);
        }
        // A reader of this record knows that the flush was not seen to succeed, and flushes before the first number.
        store(file, &taken.record.to_bytes(Ceiling::Raised)).map_err(write)?;
        rustix::fs::fdatasync(file).map_err(write)?;
        if current.is_none() {
            base.flush_directory()?;
        }
    }
    store(file, &taken.record.to_bytes(Ceiling::Certain)).map_err(write)?;
    Ok(Numbering::Number(taken.number))
}

fn store(file: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(file, bytes, 0))?;
    if written == bytes.len() { Ok(()) } else { Err(Errno::NOSPC) }
}

fn misplaced(path: &Path) -> Error {
    let message = format!(
        "{} is where the counter has to be, and is not a regular file: remove it, and a counter is made there",
        path.display()
    );
    Error::permanent(ErrorKind::InvalidConfig, Operation::Connect, message)
}

fn damaged(path: &Path) -> Error {
    let message = format!(
        "the counter {} is damaged: delete it, and a new one goes on from the clock, above all earlier tokens unless \
         the clock was set back",
        path.display()
    );
    Error::permanent(ErrorKind::Backend, Operation::Join, message)
}

fn exhausted(path: &Path) -> Error {
    let message = format!(
        "the counter {} has no greater number than {}: set the clock right, then delete the counter and every \
         contender with a greater number",
        path.display(),
        i64::MAX
    );
    Error::permanent(ErrorKind::LimitReached, Operation::Join, message)
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::Advice;
    use lockkeeper_core::clock::SystemClock;

    use super::*;
    use crate::shared_files::HeldUp;

    fn counter(directory: &Path) -> Counter {
        let base = Arc::new(Base::open(directory, Arc::new(SystemClock)).unwrap());
        Counter::new(base, boot_id().unwrap())
    }

    fn number(counter: &mut Counter) -> u64 {
        match counter.next(0, Patience::Unbounded(&HeldUp::default())).unwrap() {
            Numbering::Number(number) => number,
            Numbering::Busy => panic!("a call that may wait said that it is busy"),
        }
    }

    #[test]
    fn the_call_that_may_not_wait_leaves_the_flush_to_one_that_may() {
        let directory = tempfile::tempdir().unwrap();
        let mut counter = counter(directory.path());
        assert_eq!(counter.next(0, Patience::Now).unwrap(), Numbering::Busy);
        let first = number(&mut counter);
        assert_eq!(counter.next(0, Patience::Now).unwrap(), Numbering::Number(first + 1));
    }

    #[test]
    fn a_wiped_counter_is_made_anew_and_still_grows() {
        let directory = tempfile::tempdir().unwrap();
        let (mut ours, mut theirs) = (counter(directory.path()), counter(directory.path()));
        let before = number(&mut ours).max(number(&mut theirs));
        std::fs::remove_dir_all(directory.path()).unwrap();
        let after = number(&mut ours);
        assert!(after > before);
        assert_eq!(number(&mut theirs), after + 1, "both must count in the same new file");
    }

    #[test]
    fn a_reboot_goes_on_from_the_ceiling() {
        let directory = tempfile::tempdir().unwrap();
        let mut counter = counter(directory.path());
        let before = number(&mut counter);
        counter.boot = BootId::parse("00000000-0000-0000-0000-000000000000").unwrap();
        assert_eq!(number(&mut counter), before + record::CEILING_STEP);
    }

    #[test]
    fn something_else_in_the_counters_place_is_refused_with_its_name_and_the_cure() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        let refused = |cure: &str| {
            let error = counter(directory.path()).next(0, Patience::Now).unwrap_err();
            assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidConfig, Advice::Permanent), "{error}");
            let text = error.to_string();
            assert!(text.contains(path.to_str().unwrap()) && text.contains(cure), "{text}");
        };
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        refused("remove it");
        std::fs::remove_file(&path).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        refused("cannot open");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        refused("cannot open");
        std::fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        refused("cannot open");
    }

    #[test]
    fn a_damaged_counter_is_refused_with_its_name_and_the_cure() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        std::fs::write(&path, "17\n").unwrap();
        let error = counter(directory.path()).next(0, Patience::Unbounded(&HeldUp::default())).unwrap_err();
        assert_eq!(error.advice(), Advice::Permanent);
        let text = error.to_string();
        assert!(text.contains(path.to_str().unwrap()) && text.contains("delete it"), "{text}");
    }
}
