//! The backend: opens a directory, opens sessions in it, and looks at its queues.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{
    AdminBackend, Backend, BoxFuture, Capabilities, ContenderInfo, Error, Exclusion, Fencing, Finding, Follower,
    Operation, Part, QueueName, Remnant, Removal, Result, Scope, Scrutiny, ServiceUrl, Session, StoppedHolder,
};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::base::Base;
use crate::counter::{BootId, Counter, boot_id};
use crate::directory::{self, ContenderState};
use crate::errors::{errno_of, failed};
use crate::follow::Following;
use crate::inspection::{examine, info, listed};
use crate::pipe::Looker;
use crate::session::FileSession;
use crate::{remnants, shared_files, tidying};

/// What a directory of this machine promises.
const CAPABILITIES: Capabilities =
    Capabilities::new("file", Exclusion::Machine, Fencing::Clock, StoppedHolder::Keeps, Removal::Noticed)
        .followed(lockkeeper_core::Following::Told)
        .on_condition(&[
            "all processes see the directory by one path that is neither renamed nor replaced while locks are held",
            "no operator deletes the pipe of a holder",
        ]);

/// Locks in a directory of this machine.
///
/// Every process that opens the same directory takes part in the same locks. A contender is a named pipe whose write
/// end its process keeps open. So a lock ends with its process, however that ends, and has no timeout: a stopped
/// process keeps its place. Nothing has to be started, and no process is asked again and again whether it lives.
///
/// A user who may write the directory takes part. A user who may only read it sees the names of locks and their owners
/// and can wait until they are left. Such a user can neither enter a queue nor hold up another process, and sees a
/// killed contender as alive until a user who may write comes by.
///
/// Its futures need a tokio runtime with the I/O driver and the time driver; giving a place up needs none.
///
/// A value of a plain queue, and a place that outlives its process, are on the disk before their call returns. Nothing
/// else is flushed but the counter, once in a thousand numbers. Waits for changes of whole queues, for a loss or for a
/// request share one inotify instance for each session. Without an instance they notice a change within a second.
///
/// The directory that the path leads to is the lock. Holders and waiters look twice a second whether it was renamed or
/// replaced.
///
/// What a killed process has left is removed by the next process that uses the lock, and by one that
/// [tidies](AdminBackend::tidy), if it may.
///
/// Limits: deleting files in the directory ends the locks that they stand for. A process that is stopped in the few
/// microseconds in which it enters a queue holds up those who enter after it until it goes on. A child that was forked
/// and has not executed another program shares its parent's pipe, so a killed parent's lock ends with that child.
#[derive(Debug)]
pub struct FileBackend {
    base: Arc<Base>,
    looker: Arc<Looker>,
    counter: Arc<Mutex<Counter>>,
    boot: BootId,
}

impl FileBackend {
    /// Opens a directory. The first lock makes it, open to this user alone, if it is missing.
    ///
    /// # Errors
    ///
    /// Permanent, and naming the directory: of kind [`Refused`](lockkeeper_core::ErrorKind::Refused) if it cannot be
    /// made, of kind [`Unsupported`](lockkeeper_core::ErrorKind::Unsupported) if it lies on a file system that is not
    /// known to be a local one (ext2 to ext4, xfs, btrfs, tmpfs, overlayfs, zfs, f2fs).
    pub fn open(directory: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        let base = Arc::new(Base::open(directory, clock)?);
        let boot = boot_id()?;
        let counter = Arc::new(Mutex::new(Counter::new(base.clone(), boot)));
        Ok(Self { base, looker: Arc::default(), counter, boot })
    }

    fn infos(&self, queue: &QueueName) -> Result<Vec<ContenderInfo>> {
        let path = self.base.queue_path(queue);
        let fail = |errno| failed(Operation::Inspect, "list the directory", &path, errno);
        let opened = match shared_files::open_directory(&path) {
            Err(Errno::NOENT) => return Ok(Vec::new()),
            opened => opened.map_err(fail)?,
        };
        let listing = directory::list(opened.as_fd()).map_err(fail)?;
        let mut infos = Vec::new();
        for name in [Part::Line, Part::Permits, Part::Waiters].iter().flat_map(|&part| listing.of(part)) {
            if self.looker.look_at(&opened, name).map_err(fail)? == Some(ContenderState::Alive) {
                infos.push(info(&opened, name, &listing));
            }
        }
        Ok(infos)
    }

    /// Names the locks in use.
    fn names(&self, prefix: &str) -> Result<Vec<QueueName>> {
        let mut names = Vec::new();
        for (name, path) in self.locks()? {
            if name.as_str().starts_with(prefix) && self.is_in_use(&path).map_err(|errno| self.cannot_list(errno))? {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The locks that have a directory, in no order.
    fn locks(&self) -> Result<Vec<(QueueName, PathBuf)>> {
        let entries = match fs::read_dir(&self.base.queues) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.cannot_list(errno_of(&error))),
        };
        let mut locks = Vec::new();
        for entry in entries {
            let file_name = entry.map_err(|error| self.cannot_list(errno_of(&error)))?.file_name();
            let Some(encoded) = file_name.to_str() else { continue };
            let Some(name) = directory::name_of(&self.base.queues, encoded) else { continue };
            locks.push((name, self.base.queues.join(encoded)));
        }
        Ok(locks)
    }

    fn cannot_list(&self, errno: Errno) -> Error {
        failed(Operation::Inspect, "list the directory", &self.base.queues, errno)
    }

    /// Removes what it finds dead, and what a process that died was preparing.
    fn sweep(&self) {
        self.base.tidy();
        let entries = fs::read_dir(&self.base.queues).into_iter().flatten().flatten();
        for encoded in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            shared_files::remove_temporary(&self.base.queues, &encoded);
            let path = self.base.queues.join(&encoded);
            let is_to_be_tidied = match directory::name_of(&self.base.queues, &encoded) {
                Some(_) => self.is_to_be_tidied(&path).unwrap_or(false),
                // Its maker died before it had its name.
                None => QueueName::is_digest(&encoded),
            };
            if is_to_be_tidied {
                tidying::sweep(&self.looker, &path);
            }
        }
    }

    /// Tells whether a living contender stands in a lock's directory.
    fn is_in_use(&self, path: &Path) -> Result<bool, Errno> {
        let Some((opened, listing)) = listed(path)? else { return Ok(false) };
        for name in &listing.contenders {
            if self.looker.look_at(&opened, name)? == Some(ContenderState::Alive) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lists the dead contenders, and the directories of locks that no client uses.
    fn left(&self, unused_for: Duration) -> Result<Vec<Remnant>> {
        let now_unix = self.base.clock.unix_time();
        let mut left = Vec::new();
        for (name, path) in self.locks()? {
            let fail = |errno| self.cannot_list(errno);
            let Some((opened, listing)) = listed(&path).map_err(fail)? else { continue };
            for entry in &listing.contenders {
                let contender_state = self.looker.look_at(&opened, entry).map_err(fail)?;
                if contender_state.is_some_and(|contender_state| contender_state != ContenderState::Alive) {
                    left.push(remnants::dead(Some(name.clone()), &path, entry));
                }
            }
            if listing.contenders.is_empty() && !listing.has_lasting_value {
                left.extend(remnants::empty(Some(name), &path, now_unix, unused_for).map_err(fail)?);
            }
        }
        left.sort_by(|one, other| one.place.cmp(&other.place));
        Ok(left)
    }

    /// Tells whether a dead contender stands in a lock's directory, or it is there for nothing.
    fn is_to_be_tidied(&self, path: &Path) -> Result<bool, Errno> {
        let Some((opened, listing)) = listed(path)? else { return Ok(false) };
        for name in &listing.contenders {
            if self.looker.look_at(&opened, name)? != Some(ContenderState::Alive) {
                return Ok(true);
            }
        }
        Ok(listing.contenders.is_empty() && !listing.has_lasting_value)
    }
}

impl Backend for FileBackend {
    fn service(&self) -> String {
        ServiceUrl::of_path("file", &self.base.path.to_string_lossy()).to_string()
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        let (base, looker, counter) = (self.base.clone(), self.looker.clone(), self.counter.clone());
        let session = FileSession::open(base, looker, counter, self.boot);
        let session = session.map(|session| Arc::new(session) as Arc<dyn Session>);
        Box::pin(std::future::ready(session))
    }

    fn admin(&self) -> &dyn AdminBackend {
        self
    }
}

impl AdminBackend for FileBackend {
    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        Box::pin(std::future::ready(self.infos(queue)))
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        Box::pin(std::future::ready(self.names(prefix)))
    }

    fn follow(&self, scope: &Scope) -> Option<Follower> {
        let (base, looker) = (self.base.clone(), self.looker.clone());
        Some(Following::new(base, looker, scope.clone()).begin())
    }

    fn examine(&self, scrutiny: Scrutiny) -> BoxFuture<Result<Vec<Finding>>> {
        let found = match scrutiny {
            // What weakens locks here, opening the directory has refused.
            Scrutiny::Brief => Ok(Vec::new()),
            _ => self.locks().and_then(|_| examine(&self.base)),
        };
        Box::pin(std::future::ready(found))
    }

    fn remnants(&self, unused_for: Duration) -> BoxFuture<Result<Vec<Remnant>>> {
        Box::pin(std::future::ready(self.left(unused_for)))
    }

    fn remove(&self, remnant: &Remnant) -> BoxFuture<Result<bool>> {
        Box::pin(std::future::ready(remnants::remove(&self.looker, remnant)))
    }

    fn tidy(&self) -> BoxFuture<()> {
        self.sweep();
        Box::pin(std::future::ready(()))
    }
}
