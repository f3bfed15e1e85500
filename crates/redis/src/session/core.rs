//! What all parts of one session share: its number, its present connection, what is believed, and the calls.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{BoxFuture, Operation};
use lockkeeper_session::{Beginning, Failure, Life, Link as _};
use redis::Value;
use tokio::runtime::Handle;

use crate::connection::Flight;
use crate::layout::{Layout, SessionId};
use crate::session::belief::Timing;
use crate::session::link::Link;
use crate::session::roll::Roll;
#[cfg(feature = "testing")]
use crate::testing::Testing;
use crate::url::Config;

/// What the parts of a session share. Holding it does not keep the session alive.
pub(crate) struct Core {
    pub(crate) config: Arc<Config>,
    pub(crate) layout: Layout,
    pub(crate) id: SessionId,
    pub(crate) timing: Timing,
    pub(crate) life: Arc<Life<Link>>,
    /// The least guard of all sessions as the last renewal was told it, in milliseconds.
    guard_ms: AtomicU64,
    /// The contenders that renewals ask for.
    pub(crate) roll: Roll,
    #[cfg(feature = "testing")]
    pub(crate) testing: Testing,
}

/// What a session is made of.
pub(super) struct Parts {
    pub(super) config: Arc<Config>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) id: SessionId,
    /// When the session was asked for.
    pub(super) opened_at: BootInstant,
    #[cfg(feature = "testing")]
    pub(super) testing: Testing,
}

impl Core {
    pub(super) fn new(parts: Parts, runtime: Handle) -> Self {
        let Parts { config, clock, id, opened_at, .. } = parts;
        let timing = Timing { timeout: config.session_timeout() };
        let beginning = Beginning {
            timeout: timing.timeout,
            safe_until: opened_at.saturating_add(timing.belief()),
            notice: timing.notice(),
            worth_granting: timing.worth_granting(),
            operation_timeout: config.operation_timeout,
        };
        Self {
            layout: config.layout(),
            config,
            id,
            timing,
            life: Arc::new(Life::new(clock, runtime, beginning)),
            // The first renewal is sent at once.
            guard_ms: AtomicU64::new(u64::try_from(timing.guard().as_millis()).unwrap_or(u64::MAX)),
            roll: Roll::default(),
            #[cfg(feature = "testing")]
            testing: parts.testing,
        }
    }

    /// Notes that a call was answered that renews the session and was sent at this moment.
    pub(crate) fn renewed(&self, sent_at: BootInstant) {
        self.life.proven_for(sent_at, self.timing.belief());
    }

    /// Notes the guard, in milliseconds, by which the next renewal is timed.
    pub(super) fn renews_under(&self, guard_ms: u64) {
        self.guard_ms.store(guard_ms, Ordering::Relaxed);
    }

    /// Notes the guard, in milliseconds, that stands now. If it is less than that by which the next renewal is timed,
    /// that would come too late: the service's clock falls behind, and the dead are removed late. So it is sent now.
    pub(crate) fn heard_of_guard(&self, guard_ms: u64) {
        if guard_ms < self.guard_ms.fetch_min(guard_ms, Ordering::Relaxed) {
            self.life.urge();
        }
    }

    /// Sends a flight over a connection, whose use ends if it brings nothing any more.
    pub(crate) fn fly(
        &self,
        link: &Arc<Link>,
        flight: Flight,
        operation: Operation,
    ) -> BoxFuture<Result<Vec<Value>, Failure>> {
        let asking = link.connection.flight(flight);
        #[cfg(feature = "testing")]
        let testing = self.testing.clone();
        let link = link.clone();
        Box::pin(async move {
            let answers = asking.await;
            #[cfg(feature = "testing")]
            if answers.is_ok() && testing.loses(operation) {
                link.shut();
                return Err(Failure::broken(lockkeeper_session::Effect::Unknown));
            }
            let _ = operation;
            if answers.as_ref().is_err_and(Failure::needs_another) {
                link.shut();
            }
            answers
        })
    }

    /// The epoch of a connection with this number: joins of a lower one have no effect any more.
    #[cfg_attr(not(feature = "testing"), expect(clippy::unused_self, reason = "tests can plant a bug here"))]
    pub(crate) fn epoch(&self, number: u64) -> String {
        #[cfg(feature = "testing")]
        if self.testing.ignores_epochs() {
            return "1".to_owned();
        }
        number.to_string()
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("id", &self.id).field("life", &self.life).finish_non_exhaustive()
    }
}
