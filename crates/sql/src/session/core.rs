//! What all parts of one session share: its number, its present connection, what is believed, and the calls.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{BoxFuture, Operation};
use lockkeeper_session::{Beginning, Effect, Failure, Life, Link as _, late};
use tokio::runtime::Handle;

use crate::session::belief::Timing;
use crate::session::link::Link;
use crate::session::roll::Roll;
use crate::session::waits::Waits;
use crate::statement::{Row, SessionId, Statement};
#[cfg(feature = "testing")]
use crate::testing::Testing;
use crate::url::Config;

/// The number of the beat with which a session is opened.
const FIRST_BEAT: i64 = 1;

/// What the parts of a session share. Holding it does not keep the session alive.
pub(crate) struct Core {
    pub(crate) id: SessionId,
    pub(crate) timing: Timing,
    pub(crate) life: Arc<Life<Link>>,
    /// The number of the last beat.
    last_beat: AtomicI64,
    /// Our own contenders.
    pub(crate) roll: Roll,
    /// What is waited for.
    pub(crate) waits: Waits,
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
            id,
            timing,
            waits: Waits::new(clock.clone(), id.seed(), timing.patience()),
            life: Arc::new(Life::new(clock, runtime, beginning)),
            last_beat: AtomicI64::new(FIRST_BEAT),
            roll: Roll::default(),
            #[cfg(feature = "testing")]
            testing: parts.testing,
        }
    }

    /// Notes that a beat was answered that was sent at this moment.
    pub(super) fn proven(&self, sent_at: BootInstant) {
        #[cfg(feature = "testing")]
        let sent_at = if self.testing.counts_from_replies() { self.life.clock.now() } else { sent_at };
        self.life.proven_for(sent_at, self.timing.belief());
    }

    /// Returns the number of the next beat, greater than any before.
    pub(super) fn next_beat(&self) -> i64 {
        self.last_beat.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether the session holds or waits, or is about to.
    pub(super) fn is_busy(&self) -> bool {
        !self.roll.is_empty() || !self.waits.is_empty()
    }

    /// Puts a connection to use; what has waited for it is sent first.
    pub(super) fn attach(&self, link: Arc<Link>) {
        self.waits.attach(&link);
        self.life.attach(link);
    }

    /// Asks over a connection, whose use ends if it brings nothing any more. It is sent, or stands in the connection's
    /// line, before this returns.
    pub(crate) fn ask(
        &self,
        link: &Arc<Link>,
        statement: Statement,
        operation: Operation,
    ) -> BoxFuture<Result<Vec<Row>, Failure>> {
        let function = statement.function;
        #[cfg(feature = "testing")]
        let testing = self.testing.clone();
        let (asking, link) = (link.wire.ask(statement), link.clone());
        Box::pin(async move {
            let answer = asking.await;
            #[cfg(feature = "testing")]
            if answer.is_ok() && testing.loses(function) {
                link.shut();
                return Err(Failure::broken(Effect::Unknown));
            }
            if let Err(failure) = &answer {
                tracing::trace!(target: "lockkeeper", function, ?operation, %failure, "not answered");
                if failure.needs_another() {
                    link.shut();
                }
            }
            answer
        })
    }

    /// Waits for an answer that keeps the session: one that takes too long shows that the connection is of no use.
    pub(super) async fn patiently<T>(&self, asking: BoxFuture<Result<T, Failure>>) -> Result<T, Failure> {
        let deadline = self.life.clock.now().saturating_add(self.timing.patience());
        tokio::select! {
            biased;
            answer = asking => answer,
            () = late(&*self.life.clock, deadline) => Err(Failure::late(Effect::Unknown)),
        }
    }

    /// The epoch of a connection with this number: what was sent under a lower one has no effect any more.
    #[cfg_attr(not(feature = "testing"), expect(clippy::unused_self, reason = "tests can plant a bug here"))]
    pub(crate) fn epoch(&self, number: u64) -> i64 {
        #[cfg(feature = "testing")]
        if self.testing.ignores_epochs() {
            return 1;
        }
        i64::try_from(number).unwrap_or(i64::MAX)
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("id", &self.id).field("life", &self.life).finish_non_exhaustive()
    }
}
