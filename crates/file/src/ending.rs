//! Waits for the end of a contender whose pipe a process was reported to close: the kernel reports a close a moment
//! before it is done.

use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::net::unix::pipe::Receiver;

use crate::contender_state::ContenderState;
use crate::entry_name::EntryName;
use crate::errors::errno_of;
use crate::pipe::{self, Looker};

/// A contender that may be about to end.
#[derive(Debug)]
pub(crate) struct EndingContender {
    pub(crate) name: EntryName,
    reader: Receiver,
}

impl EndingContender {
    /// Opens its pipe, on a runtime with its I/O driver; `None` if it is gone, or we may not open it.
    pub(crate) fn of(directory: impl AsFd, name: &EntryName) -> Result<Option<Self>, Errno> {
        match pipe::open_reader(directory, name.as_str()) {
            Ok(reader) => {
                let reader = Receiver::from_owned_fd_unchecked(reader).map_err(|error| errno_of(&error))?;
                Ok(Some(Self { name: name.clone(), reader }))
            }
            Err(Errno::NOENT | Errno::ACCESS) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Is ready when it has ended.
    pub(crate) fn poll(&self, looker: &Looker, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if ready!(self.reader.poll_read_ready(context)).is_err() {
                return Poll::Ready(());
            }
            let looked = self.reader.try_io(|| match looker.look(self.reader.as_fd()) {
                Ok(ContenderState::Alive) => Err(Errno::WOULDBLOCK.into()),
                _ => Ok(()),
            });
            // Otherwise the runtime forgets that it was ready, and reports the next change.
            if !looked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
                return Poll::Ready(());
            }
        }
    }
}
