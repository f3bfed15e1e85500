//! The one inotify instance of a follower. Where the kernel gives none, or no more watches, it is blind in part.

use std::mem::MaybeUninit;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::net::unix::pipe::Receiver;

use crate::errors::errno_of;
use crate::follow::watch_table::FollowSubject;

/// The room for events that are read at once, in bytes: at least sixty of them with the longest names.
const EVENTS_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct Inotify {
    /// A receiver of bytes from a file descriptor, which is all that the runtime has to know of it.
    inotify: Option<Receiver>,
}

impl Inotify {
    /// Opens them, on a runtime with its I/O driver.
    pub(super) fn open() -> Self {
        let opened = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        Self { inotify: opened.ok().and_then(|opened| Receiver::from_owned_fd_unchecked(opened).ok()) }
    }

    /// Watches a file or a directory from now on.
    pub(super) fn watch(&self, path: &Path, subject: &FollowSubject) -> Result<i32, Errno> {
        let inotify = self.inotify.as_ref().ok_or(Errno::MFILE)?;
        inotify::add_watch(inotify, path, flags(subject))
    }

    /// Ends a watch.
    pub(super) fn unwatch(&self, descriptor: i32) {
        if let Some(inotify) = &self.inotify {
            // It may have ended together with its directory.
            let _ = inotify::remove_watch(inotify, descriptor);
        }
    }

    /// Waits until there is something to read.
    pub(super) async fn readable(&self) {
        match &self.inotify {
            Some(inotify) if inotify.readable().await.is_ok() => {}
            // The runtime is ending, or there never is.
            _ => std::future::pending().await,
        }
    }

    /// Reads all that there is.
    pub(super) fn read(&self, mut note: impl FnMut(i32, ReadFlags, Option<&str>)) -> Result<(), Errno> {
        let Some(inotify) = &self.inotify else {
            return Ok(());
        };
        let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        let read = inotify.try_io(|| -> std::io::Result<()> {
            loop {
                let event = reader.next()?;
                // A name that is not text is none of ours.
                match event.file_name().map(|name| name.to_str()) {
                    None => note(event.wd(), event.events(), None),
                    Some(Ok(name)) => note(event.wd(), event.events(), Some(name)),
                    Some(Err(_)) => {}
                }
            }
        });
        match read {
            // Until there is nothing more, so that the runtime reports what comes next.
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => Err(errno_of(&error)),
            _ => Ok(()),
        }
    }
}

fn flags(subject: &FollowSubject) -> WatchFlags {
    let names = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE;
    let itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
    match subject {
        FollowSubject::Base => names | itself,
        // Whether we may look into a lock's directory is one of its attributes.
        FollowSubject::Queues => names | itself | WatchFlags::ATTRIB,
        // The time of a grant is an attribute of a pipe, and a pipe without a name is of no interest any more.
        FollowSubject::Lock(_) => {
            names | itself | WatchFlags::ATTRIB | WatchFlags::CLOSE_WRITE | WatchFlags::EXCL_UNLINK
        }
    }
}
