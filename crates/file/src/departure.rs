//! Waiting for one contender to leave: at the read end of its pipe, so that it costs other processes nothing.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{ContenderId, Departure, Error, ErrorKind, Operation, QueueName, Result};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use tokio::net::unix::pipe::Receiver;

use crate::directory::ContenderState;
use crate::entry_name::EntryName;
use crate::errors::{errno_of, failed};
use crate::inner::{FileSessionState, lost};
use crate::pipe::{Pipe, PipeState, open_reader};
use crate::site::BaseSite;
use crate::watch::SessionWatches;
use crate::{changes, frozen};

/// How often, and after how long each time, a contender that lost its name looks whether its whole directory goes. A
/// tenth of a second in all is far more than the removal of a directory takes, and a removed contender can afford it.
const SETTLE_LOOKS: u32 = 10;
const SETTLE_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) enum PredecessorFile {
    /// There is nothing to wait for.
    Told(Departure),
    /// Its process holds the other end of a pipe.
    Lives {
        ahead: WatchedPipe,
        /// Our own pipe, if we have one: a break of ours is reported there.
        mine: Option<(WatchedPipe, Option<Arc<Pipe>>)>,
        /// Where both stand.
        site: Arc<BaseSite>,
    },
    /// A user who may only read cannot open its pipe, but sees its name come and go.
    Hidden { ahead: EntryName },
    /// It has no process.
    Frozen { ahead: EntryName, mine: Option<ContenderId> },
}

/// The read end of a contender's pipe.
#[derive(Debug)]
pub(crate) struct WatchedPipe {
    reader: OwnedFd,
    path: PathBuf,
}

impl PredecessorFile {
    pub(crate) fn find(
        session: &FileSessionState,
        queue: &QueueName,
        ahead: &ContenderId,
        mine: Option<&ContenderId>,
    ) -> Result<Self> {
        session.check_bond(Operation::Wait)?;
        let Some(name) = EntryName::parse(ahead.as_str()) else {
            let message = format!("{ahead} is not the name of a contender in a directory");
            return Err(Error::permanent(ErrorKind::Backend, Operation::Wait, message));
        };
        if name.is_frozen {
            return Ok(Self::Frozen { ahead: name, mine: mine.cloned() });
        }
        let ahead = match WatchedPipe::open(session, queue, ahead) {
            Ok(Some(ahead)) => ahead,
            Ok(None) => return Ok(Self::Told(Departure::Gone)),
            Err(error) if error.kind() == ErrorKind::Refused && mine.is_none() => {
                return Ok(Self::Hidden { ahead: name });
            }
            Err(error) => return Err(error),
        };
        // A contender that outlives its process learns of its end from its standing alone.
        let name_of_mine = mine.and_then(|mine| EntryName::parse(mine.as_str())).filter(|name| !name.is_frozen);
        let Some((mine, name)) = mine.zip(name_of_mine) else {
            return Ok(match open_site(session, queue)? {
                Some(site) => Self::Lives { ahead, mine: None, site },
                None => Self::Told(Departure::Recheck),
            });
        };
        let pipe = session.table().pipe(name.ticket);
        let site = match &pipe {
            Some(pipe) => Some(pipe.site().clone()),
            None => open_site(session, queue)?,
        };
        Ok(match (WatchedPipe::open(session, queue, mine)?, site) {
            (Some(mine), Some(site)) => Self::Lives { ahead, mine: Some((mine, pipe)), site },
            _ => Self::Told(Departure::Recheck),
        })
    }

    /// Waits until it leaves, or until ours is broken.
    pub(crate) async fn leaves(
        self,
        session: Arc<FileSessionState>,
        watches: Arc<SessionWatches>,
        queue: QueueName,
    ) -> Result<Departure> {
        match self {
            Self::Told(departure) => Ok(departure),
            Self::Frozen { ahead, mine } => {
                let look = {
                    let queue = queue.clone();
                    move |session: &FileSessionState| thawed(session, &queue, &ahead, mine.as_ref())
                };
                changes::until(session, watches, queue, look).await
            }
            Self::Hidden { ahead } => {
                let look = {
                    let queue = queue.clone();
                    move |session: &FileSessionState| removed(session, &queue, &ahead)
                };
                changes::until(session, watches, queue, look).await
            }
            Self::Lives { ahead, mine, site } => {
                let (mine, pipe) = mine.map_or((None, None), |(mine, pipe)| (Some(mine), pipe));
                let mine = async {
                    match mine {
                        Some(mine) => mine.let_go(&session).await,
                        None => std::future::pending().await,
                    }
                };
                let departure = tokio::select! {
                    biased;
                    reason = session.bond.lost() => Err(lost(reason, Operation::Wait)),
                    outcome = ahead.let_go(&session) => outcome.map(|()| Departure::Gone),
                    outcome = mine => outcome.map(|()| Departure::Recheck),
                    () = site.replaced(watches.clock()) => Ok(Departure::Recheck),
                };
                if let Some(pipe) = pipe {
                    settle(&pipe, &**watches.clock()).await;
                }
                departure
            }
        }
    }
}

/// Opens the directory of a queue; `None` if it is gone.
fn open_site(session: &FileSessionState, queue: &QueueName) -> Result<Option<Arc<BaseSite>>> {
    let path = session.base.queue_path(queue);
    match BaseSite::open(path.clone()) {
        Ok(site) => Ok(Some(Arc::new(site))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failed(Operation::Wait, "open the directory", &path, errno)),
    }
}

/// The removal of a whole directory removes our name a moment before. Lets that moment pass, so that the removal of the
/// directory is reported and not that of the name.
async fn settle(pipe: &Pipe, clock: &dyn Clock) {
    for _ in 0..SETTLE_LOOKS {
        if pipe.state() != PipeState::Removed {
            return;
        }
        clock.sleep_until(clock.now().saturating_add(SETTLE_INTERVAL)).await;
    }
}

fn thawed(
    session: &FileSessionState,
    queue: &QueueName,
    ahead: &EntryName,
    mine: Option<&ContenderId>,
) -> Result<Option<Departure>> {
    let Some(directory) = session.open_directory(queue, Operation::Wait)? else {
        return Ok(Some(Departure::Gone));
    };
    let path = session.base.queue_path(queue);
    match frozen::look_at(&directory, ahead).map_err(|errno| failed(Operation::Wait, "look into", &path, errno))? {
        Some(ContenderState::Alive) => {
            let is_gone = |mine: &ContenderId| {
                let stat = rustix::fs::statat(&directory, mine.as_str(), AtFlags::SYMLINK_NOFOLLOW);
                matches!(stat, Err(Errno::NOENT))
            };
            Ok(mine.is_some_and(is_gone).then_some(Departure::Recheck))
        }
        Some(_) => {
            // If we may not, it stays broken for all who look.
            let _ = rustix::fs::unlink(path.join(ahead.as_str()));
            Ok(Some(Departure::Gone))
        }
        None => Ok(Some(Departure::Gone)),
    }
}

/// Tells whether a contender's name is gone.
fn removed(session: &FileSessionState, queue: &QueueName, ahead: &EntryName) -> Result<Option<Departure>> {
    let Some(directory) = session.open_directory(queue, Operation::Wait)? else {
        return Ok(Some(Departure::Gone));
    };
    match rustix::fs::statat(&directory, ahead.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(None),
        Err(Errno::NOENT) => Ok(Some(Departure::Gone)),
        Err(errno) => Err(failed(Operation::Wait, "look into", &session.base.queue_path(queue), errno)),
    }
}

/// Looks at the contender ahead, and removes it if it is dead or broken.
fn still_there(session: &FileSessionState, reader: impl AsFd, path: &Path) -> Result<bool, Errno> {
    match session.looker.look(reader.as_fd())? {
        ContenderState::Alive => Ok(true),
        ContenderState::Left => Ok(false),
        ContenderState::Dead | ContenderState::Broken => {
            // A name is never used twice, so this removes no other contender.
            let _ = rustix::fs::unlink(path);
            Ok(false)
        }
    }
}

impl WatchedPipe {
    /// Opens a contender's pipe; `None` if it is gone.
    fn open(session: &FileSessionState, queue: &QueueName, contender: &ContenderId) -> Result<Option<Self>> {
        let path = session.base.queue_path(queue).join(contender.as_str());
        let fail = |errno| failed(Operation::Wait, "watch the contender", &path, errno);
        let reader = match open_reader(CWD, &path) {
            Err(Errno::NOENT) => return Ok(None),
            reader => reader.map_err(fail)?,
        };
        let is_there = still_there(session, &reader, &path).map_err(fail)?;
        Ok(is_there.then_some(Self { reader, path }))
    }

    /// Waits until no process holds the other end, or a byte reports the end.
    async fn let_go(self, session: &FileSessionState) -> Result<()> {
        let Self { reader, path } = self;
        let fail = |errno| failed(Operation::Wait, "watch the contender", &path, errno);
        let watched = Receiver::from_owned_fd_unchecked(reader).map_err(|error| fail(errno_of(&error)))?;
        loop {
            watched.readable().await.map_err(|error| fail(errno_of(&error)))?;
            let looked = watched.try_io(|| match still_there(session, &watched, &path)? {
                true => Err(Errno::WOULDBLOCK.into()),
                false => Ok(()),
            });
            match looked {
                // The runtime forgets that it was ready, and reports the next change.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                looked => return looked.map_err(|error| fail(errno_of(&error))),
            }
        }
    }
}
