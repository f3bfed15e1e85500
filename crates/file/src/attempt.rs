//! One attempt to do something in a lock's queues: the directory is opened, its flock taken and given back, and all of
//! it starts over if the directory was removed meanwhile.

use lockkeeper_core::{Error, ErrorKind, Operation, QueueName, Result};

use crate::base::Base;
use crate::directory::{Locked, QueueDirectory};
use crate::errors::failed;
use crate::shared_files::Patience;

/// How often an entry starts over because the directory was removed meanwhile: each time takes another process that
/// comes and goes.
const REOPENS_MAX: u32 = 1_000;

/// The outcome of one attempt.
#[derive(Debug)]
pub(crate) enum AttemptOutcome<T> {
    Done(T),
    /// It has to be done by a thread that may wait.
    Busy,
    Withdrawn,
    /// The directory was removed or replaced meanwhile.
    Removed,
}

/// Does something under the lock's flock, in a directory that is there.
pub(crate) fn attempt<T>(
    base: &Base,
    lock: &QueueName,
    slot: &mut Option<QueueDirectory>,
    operation: Operation,
    patience: Patience<'_>,
    act: impl Fn(&QueueDirectory) -> Result<AttemptOutcome<T>>,
) -> Result<AttemptOutcome<T>> {
    let fail = |what, errno| failed(operation, what, &base.queue_path(lock), errno);
    for _ in 0..REOPENS_MAX {
        let mut directory = match slot.take() {
            Some(directory) => directory,
            None => QueueDirectory::open(base, lock).map_err(|errno| fail("enter the directory", errno))?,
        };
        let attempt = match directory.lock(patience) {
            Ok(Locked::Ours) => {
                let attempt = act(&directory);
                directory.unlock();
                attempt
            }
            Ok(Locked::Busy) => Ok(AttemptOutcome::Busy),
            Ok(Locked::Removed) => Ok(AttemptOutcome::Removed),
            Err(errno) => Err(fail("lock the directory", errno)),
        };
        if !matches!(attempt, Ok(AttemptOutcome::Removed)) {
            *slot = Some(directory);
            return attempt;
        }
    }
    Err(restless(operation))
}

/// Returns the outcome of an attempt; `None` if it has to be made by a thread that may wait.
pub(crate) fn conclude<T>(attempt: Result<AttemptOutcome<T>>, operation: Operation) -> Option<Result<T>> {
    match attempt {
        Ok(AttemptOutcome::Done(done)) => Some(Ok(done)),
        Ok(AttemptOutcome::Busy) => None,
        Ok(AttemptOutcome::Withdrawn) => {
            let message = "the entry was withdrawn while it was under way";
            Some(Err(Error::permanent(ErrorKind::Closed, operation, message)))
        }
        Ok(AttemptOutcome::Removed) => Some(Err(restless(operation))),
        Err(error) => Some(Err(error)),
    }
}

pub(crate) fn restless(operation: Operation) -> Error {
    let message = "the queue's directory is made and removed again and again";
    Error::transient(ErrorKind::Backend, operation, message)
}
