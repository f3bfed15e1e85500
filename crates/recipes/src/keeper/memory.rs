//! Keepers of the memory service: the reference semantics within one process, and a test double.
//!
//! [`Testing`] lets a test inject what happens to real services: expire a session, cut it off, pause the service, lose
//! a reply, remove a contender. The service itself is `lockkeeper_core::memory`.
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

use std::sync::Arc;

use lockkeeper_core::Backend;
use lockkeeper_core::clock::{Clock, RuntimeClock};

pub use lockkeeper_core::memory::Testing;

use crate::keeper::{Keeper, KeeperBuilder};

/// A coordination service within this process. Its clones are the same service.
///
/// ```
/// use std::sync::Arc;
/// use lockkeeper::clock::SystemClock;
/// use lockkeeper::testing::MemoryService;
///
/// let service = MemoryService::new(Arc::new(SystemClock));
/// let (ann, bob) = (service.keeper(), service.keeper());
/// # let _ = (ann, bob);
/// ```
#[derive(Clone, Debug)]
pub struct MemoryService {
    service: lockkeeper_core::memory::MemoryStore,
}

impl MemoryService {
    /// Starts an empty service that reads this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { service: lockkeeper_core::memory::MemoryStore::new(clock) }
    }

    /// Opens a keeper: an independent client of this service, with its own session.
    pub fn keeper(&self) -> Keeper {
        self.keeper_builder().build()
    }

    /// Starts a keeper of this service.
    pub fn keeper_builder(&self) -> KeeperBuilder {
        let (backend, testing) = self.service.client();
        Keeper::builder(backend).clock(self.service.clock().clone()).testing(testing)
    }

    /// Opens an independent client of this service without a keeper; for tests that put another [`Backend`] in between.
    pub fn client(&self) -> (Arc<dyn Backend>, Testing) {
        self.service.client()
    }
}

impl Keeper {
    /// Makes a keeper with its own memory service: the reference semantics within one process, and, with
    /// [`Keeper::testing`], a test double.
    ///
    /// Its time is tokio's: where a test has paused that (`#[tokio::test(start_paused = true)]`), timeouts and limits
    /// of holds follow it.
    pub fn memory() -> Self {
        MemoryService::new(Arc::new(RuntimeClock::new())).keeper()
    }

    /// Returns the means to inject faults, if this keeper is over a memory service.
    pub fn testing(&self) -> Option<&Testing> {
        self.shared.testing.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_core::{ErrorKind, LossReason};

    use super::*;
    use lockkeeper_core::SafeUntil;
    use lockkeeper_core::clock::TestClock;

    /// Before, each of these took as long as it says, and tokio's time ran ahead by hours.
    #[tokio::test(start_paused = true)]
    async fn a_memory_keeper_follows_paused_time_without_being_told() {
        const HOUR: Duration = Duration::from_secs(3600);
        let keeper = Keeper::memory();
        let mutex = keeper.mutex("door").unwrap();
        let guard = mutex.lock().await.unwrap();
        let start = tokio::time::Instant::now();
        assert!(mutex.lock_timeout(HOUR).await.unwrap().is_none());
        assert_eq!(start.elapsed().as_secs(), HOUR.as_secs());
        drop(guard);
        let limited = mutex.clone().max_hold(HOUR).lock().await.unwrap();
        assert_eq!(limited.hold().lost().await, LossReason::MaxHold);
        assert_eq!(start.elapsed().as_secs(), 2 * HOUR.as_secs());
        drop(limited);
        let held = mutex.lock().await.unwrap();
        let now = keeper.shared.clock.now();
        keeper.testing().unwrap().cut(SafeUntil::At(now.saturating_add(HOUR)));
        assert!(held.hold().is_held());
        assert_eq!(held.hold().lost().await, LossReason::Lapsed);
        assert_eq!(start.elapsed().as_secs(), 3 * HOUR.as_secs());
        tokio::time::advance(HOUR).await;
        assert_eq!(keeper.shared.clock.now().saturating_duration_since(now), 2 * HOUR);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_in_the_pause_before_its_next_attempt_is_told_at_once_that_the_keeper_was_closed() {
        let clock = Arc::new(TestClock::new());
        let keeper = MemoryService::new(clock.clone()).keeper();
        keeper.testing().unwrap().cut(SafeUntil::ProcessEnd);
        let waiting = tokio::spawn(keeper.mutex("door").unwrap().lock_owned());
        // Long enough for the pauses to have grown to their longest.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!waiting.is_finished());
        let closed_at = clock.now();
        let _ = keeper.close().await;
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert_eq!(clock.now(), closed_at);
    }
}
