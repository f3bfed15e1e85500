//! The values of queues: a small file each, replaced as a whole under the lock's flock.
//!
//! The value of a plain queue is on the disk before its write is reported, and lives until it is removed. The values of
//! a semaphore's queues are about the permits that are held. So they go with the lock's directory when no contender
//! stands there any more, and need no disk, since no permit outlives the machine.
//!
//! `lockkeeper <version, 20 digits>` and a line end, then the bytes. The version is a number of the base directory's
//! counter, so it differs after each write, also after a removal, a reboot, and the wiping of the directory.

use parking_lot::Mutex;
use std::path::Path;

use lockkeeper_core::{
    Error, ErrorKind, Expected, Operation, Part, QueueName, Result, VALUE_BYTES_MAX, Value, ValueVersion,
};
use rustix::io::Errno;

use crate::counter::{Counter, Numbering};
use crate::directory::{QueueDirectory, value_name};
use crate::entering::AttemptOutcome;
use crate::errors::failed;
use crate::gate::WriteCall;
use crate::inner::FileSessionState;
use crate::shared_files::{self, FileDurability, Patience};

/// What the file begins with.
const MAGIC: &str = "lockkeeper ";

/// The width of the version, in digits: as wide as the greatest 64-bit number.
const VERSION_DIGITS: usize = 20;

/// The length of what stands before the bytes of the value, in bytes.
const HEAD_BYTES: usize = MAGIC.len() + VERSION_DIGITS + 1;

/// Refuses a value that is too long.
pub(crate) fn check(value: Option<&[u8]>) -> Result<()> {
    if value.is_none_or(|value| value.len() <= VALUE_BYTES_MAX) {
        return Ok(());
    }
    let message = format!("a value has at most {VALUE_BYTES_MAX} bytes");
    Err(Error::permanent(ErrorKind::LimitReached, Operation::Value, message))
}

pub(crate) fn read(session: &FileSessionState, queue: &QueueName) -> Result<Option<Value>> {
    session.check_bond(Operation::Value)?;
    match session.open_directory(queue, Operation::Value)? {
        Some(directory) => read_in(&directory, &session.base.queue_path(queue), queue.part()),
        None => Ok(None),
    }
}

fn read_in(directory: impl std::os::fd::AsFd, path: &Path, part: Part) -> Result<Option<Value>> {
    let name = value_name(part);
    let damaged = || {
        let message = format!("the value {} is damaged: delete it, and there is none", path.join(name).display());
        Error::permanent(ErrorKind::Backend, Operation::Value, message)
    };
    match shared_files::read(directory, name, HEAD_BYTES + VALUE_BYTES_MAX) {
        Ok(None) => Ok(None),
        Ok(Some(content)) => parse(&content).ok_or_else(damaged).map(Some),
        Err(Errno::FBIG) => Err(damaged()),
        Err(errno) => Err(failed(Operation::Value, "read the value", &path.join(name), errno)),
    }
}

fn parse(content: &[u8]) -> Option<Value> {
    let (head, bytes) = content.split_at_checked(HEAD_BYTES)?;
    let digits = str::from_utf8(head).ok()?.strip_prefix(MAGIC)?.strip_suffix('\n')?;
    let version: u64 = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
    Some(Value { bytes: bytes.into(), version: ValueVersion(version.into()) })
}

fn compose(version: u64, bytes: &[u8]) -> Vec<u8> {
    let mut content = format!("{MAGIC}{version:020}\n").into_bytes();
    content.extend_from_slice(bytes);
    content
}

impl WriteCall {
    /// Writes the value, if it is as expected; under the lock's flock, on a thread that may wait.
    pub(crate) fn write(
        &self,
        session: &FileSessionState,
        directory: &QueueDirectory,
        counter: &Mutex<Counter>,
        patience: Patience<'_>,
    ) -> Result<AttemptOutcome<Option<ValueVersion>>> {
        let path = session.base.queue_path(&self.queue);
        let fail = |what, errno| failed(Operation::Value, what, &path, errno);
        let found = read_in(directory.directory(), &path, self.queue.part())?.map(|value| value.version);
        let is_expected = match self.expected {
            Expected::Any => true,
            Expected::Absent => found.is_none(),
            Expected::Version(version) => found == Some(version),
        };
        if !is_expected {
            return Ok(AttemptOutcome::Done(None));
        }
        let listing = match directory.list() {
            Err(Errno::NOENT) => return Ok(AttemptOutcome::Removed),
            listing => listing.map_err(|errno| fail("list the directory", errno))?,
        };
        directory.tidy(&listing);
        let floor = listing.contenders.last().map_or(0, |last| last.token().as_u64());
        let floor = floor.max(found.and_then(|ValueVersion(version)| u64::try_from(version).ok()).unwrap_or(0));
        let Numbering::Number(version) = counter.lock().next(floor, patience)? else {
            return Ok(AttemptOutcome::Busy);
        };
        // From here on nothing waits for another process, so a session that is being closed waits for this.
        if !session.table().is_wanted(self.ticket) {
            return Ok(AttemptOutcome::Withdrawn);
        }
        let name = value_name(self.queue.part());
        let lasts = self.queue.part() == Part::Line;
        let replaced = match &self.value {
            Some(bytes) => {
                let content = compose(version, bytes);
                let durability = if lasts { FileDurability::Disk } else { FileDurability::Process };
                shared_files::replace(directory.directory(), name, &content, directory.access(), durability).map(drop)
            }
            None => directory.remove(name),
        };
        match replaced {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(AttemptOutcome::Removed),
            Err(errno) => return Err(fail("write the value in", errno)),
        }
        if lasts {
            session.base.flush_queue(directory.directory()).map_err(|errno| {
                let message = format!("the value in {} was written, and may not outlive a crash", path.display());
                Error::unknown(ErrorKind::Backend, Operation::Value, message).caused_by(std::io::Error::from(errno))
            })?;
        }
        Ok(AttemptOutcome::Done(Some(ValueVersion(version.into()))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(version: u64, bytes: Vec<u8>) {
            let value = parse(&compose(version, &bytes)).unwrap();
            prop_assert_eq!((&*value.bytes, value.version), (&*bytes, ValueVersion(version.into())));
        }

        #[test]
        fn no_content_panics(content: Vec<u8>) {
            let _ = parse(&content);
        }
    }
}
