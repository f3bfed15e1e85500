//! Requests to a contender of any process: that it gives up, or that it is gone.
//!
//! A polite request is a small file beside the contender: `<nanoseconds, or ->`, a line end, and `+<why>` or `-`. The
//! process that leaves it knocks at the contender's pipe, so that its owner looks. It goes when the contender does, at
//! the latest with the next entry.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use lockkeeper_core::{
    ContenderId, Error, ErrorKind, FencingToken, Operation, QueueName, Request, Result, Revocation, Ticket,
};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;

use crate::access::DirectoryAccess;
use crate::directory::ContenderState;
use crate::directory::{QueueDirectory, request_name};
use crate::entry_name::EntryName;
use crate::errors::failed;
use crate::inner::FileSessionState;
use crate::pipe;
use crate::shared_files::{self, FileDurability};
use crate::tidying;

/// The longest reason, in bytes: it is a sentence for the owner of the contender.
const WHY_BYTES_MAX: usize = 4096;

/// The length of what stands before the reason, in bytes, at most.
const HEAD_BYTES_MAX: usize = 22;

/// How often a request is left anew because others tidied it up while it was being written.
const TRIES_MAX: u32 = 64;

/// Asks something of a contender.
pub(crate) fn ask(
    session: &FileSessionState,
    queue: &QueueName,
    contender: &ContenderId,
    request: Request,
) -> Result<bool> {
    session.check_bond(Operation::Request)?;
    let found = EntryName::parse(contender.as_str()).filter(|name| name.part == queue.part());
    let (Some(name), Some(directory)) = (found, session.open_directory(queue, Operation::Request)?) else {
        return Ok(false);
    };
    let path = session.base.queue_path(queue);
    let asked = match request {
        Request::Yield(revocation) => {
            if revocation.why.as_ref().is_some_and(|why| why.len() > WHY_BYTES_MAX) {
                let message = format!("the reason of a request has {WHY_BYTES_MAX} bytes at most");
                return Err(Error::permanent(ErrorKind::LimitReached, Operation::Request, message));
            }
            leave_request(session, &directory, &path, &name, &revocation)
        }
        Request::Break { token } => break_contender(session, &directory, queue, &name, token),
        _ => {
            let message = "files have no such request";
            return Err(Error::permanent(ErrorKind::Unsupported, Operation::Request, message));
        }
    };
    asked.map_err(|errno| failed(Operation::Request, "ask a contender in", &path, errno))
}

/// Reads what was asked of a contender, if anything was.
pub(crate) fn read(directory: impl AsFd, ticket: Ticket) -> Option<Revocation> {
    let name = request_name(ticket);
    match shared_files::read(&directory, &name, HEAD_BYTES_MAX + WHY_BYTES_MAX) {
        Ok(content) => content.map(|content| parse(&String::from_utf8_lossy(&content))),
        // What cannot be read is a request all the same, if it is there. This needs no descriptor, of which there may
        // be none left.
        Err(_) => {
            let is_there = rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
            is_there.then(Revocation::default)
        }
    }
}

fn compose(revocation: &Revocation) -> String {
    let within = revocation.within.map(|within| u64::try_from(within.as_nanos()).unwrap_or(u64::MAX));
    let within = within.map_or_else(|| "-".to_owned(), |nanos| nanos.to_string());
    let why = revocation.why.as_ref().map_or_else(|| "-".to_owned(), |why| format!("+{why}"));
    format!("{within}\n{why}")
}

fn parse(content: &str) -> Revocation {
    let (within, why) = content.split_once('\n').unwrap_or((content, "-"));
    let why = why.strip_prefix('+').map(|why| why.replace(char::is_control, "\u{FFFD}"));
    Revocation::new(why, within.parse().ok().map(Duration::from_nanos))
}

fn leave_request(
    session: &FileSessionState,
    directory: &OwnedFd,
    path: &Path,
    name: &EntryName,
    revocation: &Revocation,
) -> Result<bool, Errno> {
    let access = DirectoryAccess::within(directory)?;
    let (file_name, content) = (request_name(name.ticket), compose(revocation));
    for _ in 0..TRIES_MAX {
        if session.looker.look_at(directory, name)? != Some(ContenderState::Alive) {
            return Ok(false);
        }
        match shared_files::replace(directory, &file_name, content.as_bytes(), &access, FileDurability::Process) {
            Ok(_) => {}
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno),
        }
        if session.looker.look_at(directory, name)?.is_some() {
            pipe::knock(directory, name)?;
            return Ok(true);
        }
        // It left meanwhile, and perhaps its directory was about to go.
        let _ = rustix::fs::unlinkat(directory, &file_name, AtFlags::empty());
        let _ = rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR);
        return Ok(false);
    }
    Err(Errno::NOENT)
}

fn break_contender(
    session: &FileSessionState,
    directory: &OwnedFd,
    queue: &QueueName,
    name: &EntryName,
    token: FencingToken,
) -> Result<bool, Errno> {
    if name.token() != token || !pipe::mark_broken(&session.looker, directory, name)? {
        return Ok(false);
    }
    match rustix::fs::unlinkat(directory, name.as_str(), AtFlags::empty()) {
        // A process that met the mark first has removed it.
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    if name.is_frozen {
        thawed(session, directory, queue)?;
    }
    Ok(true)
}

/// Removes a contender that outlives its process by its ticket, also one of another process; does nothing if there is
/// none.
pub(crate) fn thaw(session: &FileSessionState, queue: &QueueName, ticket: Ticket) -> Result<()> {
    let Some(directory) = session.open_directory(queue, Operation::Leave)? else {
        return Ok(());
    };
    let fail = |errno| failed(Operation::Leave, "remove a contender in", &session.base.queue_path(queue), errno);
    let listing = crate::directory::list(directory.as_fd()).map_err(fail)?;
    let Some(name) = listing.of(queue.part()).find(|name| name.ticket == ticket && name.is_frozen) else {
        return Ok(());
    };
    match rustix::fs::unlinkat(&directory, name.as_str(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => thawed(session, &directory, queue).map_err(fail),
        Err(errno) => Err(fail(errno)),
    }
}

/// Flushes the removal to the disk, and removes the directory if it is empty, since its owner may have gone long ago.
fn thawed(session: &FileSessionState, directory: &OwnedFd, queue: &QueueName) -> Result<(), Errno> {
    rustix::fs::fsync(directory)?;
    let opened = QueueDirectory::open(&session.base, queue)?;
    tidying::reap(&session.looker, opened);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustix::fs::{Mode, OFlags};

    use super::*;

    #[test]
    fn a_request_that_cannot_be_read_counts_only_if_it_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let ticket = Ticket::from_bits(7);
        let path = directory.path().join(request_name(ticket));
        let open = |path: &Path| rustix::fs::open(path, OFlags::PATH, Mode::empty()).unwrap();
        assert_eq!(read(open(directory.path()), ticket), None);
        // A directory in its place cannot be read.
        std::fs::create_dir(&path).unwrap();
        assert_eq!(read(open(directory.path()), ticket), Some(Revocation::default()));
        // Nothing can be opened below a file, and nothing is there.
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(read(open(&file), ticket), None);
    }

    #[test]
    fn control_characters_are_not_shown() {
        assert_eq!(parse("-\n+\u{1b}[2J").why.as_deref(), Some("\u{FFFD}[2J"));
    }

    proptest! {
        #[test]
        fn a_request_is_read_as_it_was_left(why in proptest::option::of("\\PC{0,40}"), nanos: Option<u64>) {
            let revocation = Revocation::new(why, nanos.map(Duration::from_nanos));
            prop_assert!(compose(&revocation).len() <= HEAD_BYTES_MAX + revocation.why.as_ref().map_or(0, String::len));
            prop_assert_eq!(parse(&compose(&revocation)), revocation);
        }

        #[test]
        fn no_content_panics(content in "\\PC*") {
            let _ = parse(&content);
        }
    }
}
