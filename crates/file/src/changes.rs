//! Waiting for any change of a queue: a contender joins, leaves or dies, or its value is written.
//!
//! The kernel reports names that come and go. It also reports that a dying process closes its pipe, but a moment before
//! the close is done; so the pipe is then watched until it has ended. There is one inotify watch for each queue that is
//! waited for. A pipe is opened only if a process has just closed or knocked at it.

use std::future::poll_fn;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lockkeeper_core::{Operation, QueueName, Result};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use tokio::net::unix::pipe::Receiver;

use crate::directory::{self, ContenderState, ENTER};
use crate::entry_name::EntryName;
use crate::errors::{errno_of, failed};
use crate::inner::{FileSessionState, lost};
use crate::pipe::{self, Looker};
use crate::site::{LOOK_INTERVAL, PathIdentity};
use crate::watch::{FileWatch, SessionWatches, WatchChange, WatchTopic};

/// Looks again at each change until there is something to report.
pub(crate) async fn until<T>(
    session: Arc<FileSessionState>,
    watches: Arc<SessionWatches>,
    queue: QueueName,
    look: impl Fn(&FileSessionState) -> Result<Option<T>>,
) -> Result<T> {
    let mut attention =
        WaiterWatches { session: &session, watches: &watches, queue: &queue, watched: None, suspects: Vec::new() };
    loop {
        attention.watch_lock().map_err(|errno| attention.failed(errno))?;
        if let Some(found) = look(&session)? {
            return Ok(found);
        }
        tokio::select! {
            biased;
            reason = session.bond.lost() => return Err(lost(reason, Operation::Wait)),
            outcome = attention.change() => outcome.map_err(|errno| attention.failed(errno))?,
        }
    }
}

struct WaiterWatches<'a> {
    session: &'a FileSessionState,
    watches: &'a SessionWatches,
    queue: &'a QueueName,
    /// Absent before the first look, and when it may be another directory by now.
    watched: Option<WatchedDirectory>,
    /// Contenders whose pipes were reported as closed by a process; at most as many as stand in the queue.
    suspects: Vec<EndingContender>,
}

/// What reports a directory's changes.
struct WatchedDirectory {
    /// Absent if there is no such directory.
    lock: Option<FileWatch>,
    /// Absent if the directory is settled, so that its own end is reported from within; and if there is no directory of
    /// queues yet: then a look finds it.
    queues: Option<FileWatch>,
    /// What the paths led to before we watched: the kernel does not report that a directory above was renamed.
    places: [PathIdentity; 2],
}

impl WaiterWatches<'_> {
    /// Watches the lock's directory as it is now, if there is one, or else for its creation.
    fn watch_lock(&mut self) -> Result<(), Errno> {
        if self.watched.is_some() {
            return Ok(());
        }
        let places = self.places();
        let path = self.session.base.queue_path(self.queue);
        let path = path.to_string_lossy();
        let lock = self.watch(&path, WatchTopic::Lock)?;
        // The flock's file is made first and removed last, so a removal of the directory is reported from now on.
        if lock.is_some() && rustix::fs::statat(CWD, &*format!("{path}/{ENTER}"), AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            self.watched = Some(WatchedDirectory { lock, queues: None, places });
            return Ok(());
        }
        let queues = self.watch(&self.session.base.queues.to_string_lossy(), WatchTopic::Queues)?;
        // It may have been made before we watched for that.
        let lock = self.watch(&path, WatchTopic::Lock)?;
        self.watched = Some(WatchedDirectory { lock, queues, places });
        Ok(())
    }

    /// Looks at what the paths of the lock's directory and of all locks lead to.
    fn places(&self) -> [PathIdentity; 2] {
        let base = &self.session.base;
        [PathIdentity::of(&base.queue_path(self.queue)), PathIdentity::of(&base.queues)]
    }

    fn watch(&self, path: &str, topic: WatchTopic) -> Result<Option<FileWatch>, Errno> {
        match self.watches.watch(path, topic) {
            Err(Errno::NOENT) => Ok(None),
            watch => watch.map(Some),
        }
    }

    /// Waits until something may have changed.
    async fn change(&mut self) -> Result<(), Errno> {
        let clock = self.watches.clock();
        let change = loop {
            let places = self.places();
            let (Some(watched), session, suspects) = (&mut self.watched, self.session, &mut self.suspects) else {
                return Ok(());
            };
            if places != watched.places {
                break WatchChange { is_unsettled: true, ..WatchChange::default() };
            }
            tokio::select! {
                change = changed(&mut watched.lock) => break change,
                change = changed(&mut watched.queues) => break change,
                () = poll_fn(|context| poll_suspects(session, suspects, context)) => break WatchChange::default(),
                () = clock.sleep_until(clock.now().saturating_add(LOOK_INTERVAL)) => {}
            }
        };
        if change.is_unsettled {
            self.watched = None;
        }
        self.suspect(&change)
    }

    /// Watches those whose pipes were reported as closed by a process.
    fn suspect(&mut self, change: &WatchChange) -> Result<(), Errno> {
        if change.closed.is_empty() && !change.more_closed {
            return Ok(());
        }
        let Ok(Some(opened)) = self.session.open_directory(self.queue, Operation::Wait) else {
            return Ok(());
        };
        let names = directory::list(opened.as_fd())?.contenders;
        self.suspects.retain(|suspect| names.contains(&suspect.name));
        for name in names {
            let is_told = change.more_closed || change.closed.iter().any(|closed| **closed == *name.as_str());
            if !is_told || name.is_frozen || self.suspects.iter().any(|suspect| suspect.name == name) {
                continue;
            }
            self.suspects.extend(EndingContender::of(&opened, &name)?);
        }
        Ok(())
    }

    fn failed(&self, errno: Errno) -> lockkeeper_core::Error {
        failed(Operation::Wait, "watch the directory", &self.session.base.queue_path(self.queue), errno)
    }
}

async fn changed(watch: &mut Option<FileWatch>) -> WatchChange {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

/// Is ready when one of them has ended, and forgets it.
fn poll_suspects(
    session: &FileSessionState,
    suspects: &mut Vec<EndingContender>,
    context: &mut Context<'_>,
) -> Poll<()> {
    let before = suspects.len();
    suspects.retain(|suspect| suspect.poll(&session.looker, context).is_pending());
    if suspects.len() < before { Poll::Ready(()) } else { Poll::Pending }
}

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
