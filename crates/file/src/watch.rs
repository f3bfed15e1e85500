//! Hearing that our own pipe was removed from its queue, by inotify.
//!
//! Waiters never use it: the kernel gives a user 128 instances by default. One instance for each session and runtime
//! serves all its holds, made when somebody first waits for a loss.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::net::unix::pipe::Receiver;
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;

use crate::errors::errno_of;
use crate::locked;
use crate::pipe::Pipe;

/// How often a hold looks for its pipe when the kernel gives no inotify instance or watch.
///
/// A look is one system call; a removal by an operator needs no faster answer, since the guard itself looks whenever it
/// is asked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The room for events that are read at once, in bytes; what they say does not matter.
const EVENTS_BYTES: usize = 4096;

/// A session's inotify instances: one for each runtime that waits, since a runtime hears only what it registered itself.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_runtime: Mutex<Vec<(Id, Weak<Watch>)>>,
}

#[derive(Debug)]
struct Watch {
    /// A receiver of bytes from a file descriptor, which is all that the runtime has to know of it.
    inotify: Receiver,
    /// Wakes all who share the instance after somebody has read its events.
    changed: Notify,
}

/// Waits until a pipe has no name any more; needs a runtime with its I/O driver, and with its time driver if the kernel
/// has no inotify to give.
pub(crate) async fn removed(pipe: &Pipe, watches: &Watches, clock: &dyn Clock) {
    if !pipe.is_linked() {
        return;
    }
    match watches.on(pipe) {
        Ok(Some(watch)) => watch.removed(pipe).await,
        Ok(None) => {}
        Err(errno) => {
            warn_once(errno);
            while pipe.is_linked() {
                clock.sleep_until(clock.now().saturating_add(LOOK_INTERVAL)).await;
            }
        }
    }
}

impl Watches {
    /// Watches a pipe; `None` if we left it already. The watch ends with the pipe, which nothing outlives.
    fn on(&self, pipe: &Pipe) -> Result<Option<Arc<Watch>>, Errno> {
        let watch = self.here()?;
        // Losing a name is a change of the pipe's attributes; its deletion is told only when nobody has it open.
        let added = pipe.with_path(|path| inotify::add_watch(&watch.inotify, path, WatchFlags::ATTRIB));
        added.transpose().map(|added| added.map(|_| watch))
    }

    fn here(&self) -> Result<Arc<Watch>, Errno> {
        let runtime = Handle::current().id();
        let mut by_runtime = locked(&self.by_runtime);
        by_runtime.retain(|(_, watch)| watch.strong_count() > 0);
        if let Some(watch) = by_runtime.iter().find(|(id, _)| *id == runtime).and_then(|(_, watch)| watch.upgrade()) {
            return Ok(watch);
        }
        let opened = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let inotify = Receiver::from_owned_fd_unchecked(opened).map_err(|error| errno_of(&error))?;
        let watch = Arc::new(Watch { inotify, changed: Notify::new() });
        by_runtime.push((runtime, Arc::downgrade(&watch)));
        Ok(watch)
    }
}

impl Watch {
    async fn removed(&self, pipe: &Pipe) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no event is missed, whoever reads it.
            changed.as_mut().enable();
            if !pipe.is_linked() {
                return;
            }
            tokio::select! {
                () = &mut changed => {}
                ready = self.inotify.readable() => match ready {
                    Ok(()) => {
                        self.drain();
                        self.changed.notify_waiters();
                    }
                    // The runtime is ending, and nobody is left to be told.
                    Err(_) => std::future::pending().await,
                },
            }
        }
    }

    /// Reads until there is nothing more, so that the runtime tells of what comes next.
    fn drain(&self) {
        let mut events = [0_u8; EVENTS_BYTES];
        while self.inotify.try_read(&mut events).is_ok_and(|length| length > 0) {}
    }
}

fn warn_once(errno: Errno) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!(%errno, "the kernel has no inotify instance left; a removal by others is noticed within a second");
    }
}
