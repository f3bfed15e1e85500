//! Making things go wrong on purpose.

use std::fmt;
use std::sync::Arc;

use crate::contender::ContenderId;
use crate::memory::service::MemoryService;
use crate::memory::session::MemoryBackend;
use crate::{LossReason, Operation, QueueName, Result, SafeUntil};

/// Does to one keeper of a memory service what happens to real ones; from [`Keeper::testing`](crate::Keeper::testing).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper_core::Error> {
/// use lockkeeper_core::{Keeper, Operation};
///
/// let keeper = Keeper::memory();
/// let mutex = keeper.mutex("reports")?;
/// // The join takes effect, but its answer is lost: the lock is found free of our ghost all the same.
/// keeper.testing().unwrap().drop_next_reply(Operation::Join);
/// assert!(mutex.try_lock().await.is_err());
/// assert!(mutex.try_lock().await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Testing {
    service: MemoryService,
    backend: Arc<MemoryBackend>,
}

impl Testing {
    pub(super) fn new(service: MemoryService, backend: Arc<MemoryBackend>) -> Self {
        Self { service, backend }
    }

    /// Has the service end this keeper's session: its contenders leave, its holds are lost.
    pub fn expire_session(&self) {
        for session in std::mem::take(&mut *self.backend.sessions()) {
            self.service.end_session(session, LossReason::Expired);
        }
    }

    /// Cuts this keeper off: its requests fail, its session is in jeopardy and lapses at `safe_until`, its contenders stay
    /// until [`Testing::heal`] or [`Testing::expire_session`].
    pub fn cut(&self, safe_until: SafeUntil) {
        let mut state = self.service.state();
        for session in self.backend.sessions().iter() {
            if let Some(link) = state.links.get_mut(session) {
                link.cut = true;
                link.bond.jeopardize(safe_until);
            }
        }
    }

    /// Opens the way again: the same session on a new connection, and what was withdrawn meanwhile is done. A session that
    /// lapsed stays lost.
    pub fn heal(&self) {
        let mut state = self.service.state();
        for session in self.backend.sessions().iter() {
            let Some(link) = state.links.get_mut(session).filter(|link| link.cut) else {
                continue;
            };
            link.cut = false;
            link.bond.renew(SafeUntil::ProcessEnd);
            let owed = std::mem::take(&mut link.owed);
            link.connection.send_modify(|connection| *connection += 1);
            for request in owed {
                request(&mut state);
            }
        }
    }

    /// Stops the service, for all its keepers: requests wait and take effect after [`Testing::resume`].
    pub fn pause(&self) {
        self.service.pause();
    }

    /// Lets the service go on, with the requests that waited, in their order.
    pub fn resume(&self) {
        self.service.resume();
    }

    /// Loses the reply of the next request of this kind, of whichever keeper, after it took effect.
    pub fn drop_next_reply(&self, operation: Operation) {
        self.service.drop_next_reply(operation);
    }

    /// Removes a contender, as an operator would.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::ErrorKind::InvalidName) if `lock` is no name.
    pub fn remove_contender(&self, lock: &str, contender: &ContenderId) -> Result<()> {
        let queue = QueueName::new(lock)?;
        self.service.state().queues.remove_contender(&queue, contender);
        Ok(())
    }
}

impl fmt::Debug for Testing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Testing")
    }
}
