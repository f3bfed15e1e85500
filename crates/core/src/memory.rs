//! The memory backend: the reference semantics of the waist, and a test double.
//!
//! Contenders of one process exclude one another; nothing leaves the process and nothing needs a runtime. It implements
//! the waist in the simplest form. [`Testing`] lets a test inject what happens to real services: expire a session, cut
//! it off, pause the service, lose a reply, remove a contender.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lockkeeper::Error> {
//! use lockkeeper::{Keeper, LossReason};
//!
//! let keeper = Keeper::memory();
//! let guard = keeper.mutex("nightly")?.lock().await?;
//! keeper.testing().unwrap().expire_session();
//! assert_eq!(guard.hold().lost().await, LossReason::Expired);
//! # Ok(())
//! # }
//! ```

mod queue;
mod service;
mod session;
mod standing;

use std::fmt;
use std::sync::Arc;

use crate::backend::Backend;
use crate::contender::ContenderId;
use crate::error::{Operation, Result};
use crate::liveness::{LossReason, SafeUntil};
use crate::memory::session::MemoryBackend;
use crate::name::{Part, QueueName};

pub use service::MemoryStore;

/// Injects into one client of a memory service the faults of real services; from [`MemoryStore::client`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::{Keeper, Operation};
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
    service: MemoryStore,
    backend: Arc<MemoryBackend>,
}

impl Testing {
    /// Makes the service end this keeper's session: its contenders leave, its holds are lost.
    pub fn expire_session(&self) {
        for session in std::mem::take(&mut self.backend.client().sessions) {
            self.service.end_session(session, LossReason::Expired);
        }
    }

    /// Cuts this keeper off: its requests fail, it opens no session, it is told of no events, and its session is in
    /// jeopardy and lapses at `safe_until`. In the service its contenders stay until [`Testing::heal`] or
    /// [`Testing::expire_session`], also when the keeper is closed or dropped meanwhile.
    pub fn cut(&self, safe_until: SafeUntil) {
        let mut client = self.backend.client();
        client.cut = true;
        for &session in &client.sessions {
            self.service.cut(session, safe_until);
        }
    }

    /// Reconnects this keeper: the same session on a new connection. Withdrawals made meanwhile are done. A session
    /// that lapsed stays lost.
    pub fn heal(&self) {
        let mut client = self.backend.client();
        client.cut = false;
        for &session in &client.sessions {
            self.service.heal(session);
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

    /// Loses the reply of the next request of this kind, of any keeper, after it took effect.
    pub fn drop_next_reply(&self, operation: Operation) {
        self.service.drop_next_reply(operation);
    }

    /// Removes a contender from its queue of this lock, as an operator would.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::ErrorKind::InvalidName) if `lock` is not a valid name.
    pub fn remove_contender(&self, lock: &str, contender: &ContenderId) -> Result<()> {
        let queue = QueueName::new(lock)?;
        let queues = &mut self.service.state().queues;
        for part in [Part::Line, Part::Permits, Part::Waiters] {
            // A contender's identity is never used twice, in any queue.
            queues.remove_contender(&queue.with_part(part), contender);
        }
        Ok(())
    }
}

impl MemoryStore {
    /// Opens an independent client of this service: its side of the waist, and the means to inject faults into it.
    pub fn client(&self) -> (Arc<dyn Backend>, Testing) {
        let backend = Arc::new(MemoryBackend::new(self.clone()));
        let testing = Testing { service: self.clone(), backend: backend.clone() };
        (backend, testing)
    }
}

impl fmt::Debug for Testing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Testing")
    }
}
