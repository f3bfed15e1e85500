//! State that all parts of one session share: its number, its present connection, what is believed, and the calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, Operation};
use lockkeeper_session::{Beginning, Bug, Failure, Life, OwnContenders, Server};
use redis::Value;
use tokio::runtime::Handle;

use crate::connection::{Batch, Connection};
use crate::layout::{Layout, SessionId};
use crate::session::Link;
use crate::session::belief::Timing;
use crate::url::{Config, Site};

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
    /// Each with part, name and member, as the script of renewals asks for it.
    pub(crate) contenders: OwnContenders<[String; 3]>,
}

impl Core {
    /// Begins a session that was asked for at this moment.
    pub(super) fn new(site: &Site, id: SessionId, opened_at: BootInstant, runtime: Handle) -> Self {
        let Site { config, layout, clock, testing } = site.clone();
        let timing = Timing { timeout: config.session_timeout() };
        let beginning = Beginning {
            session: id.to_string(),
            testing,
            timeout: timing.timeout,
            safe_until: opened_at.saturating_add(timing.belief()),
            notice: timing.notice(),
            worth_granting: timing.worth_granting(),
            operation_timeout: config.operation_timeout,
        };
        Self {
            config,
            layout,
            id,
            timing,
            life: Arc::new(Life::new(clock, runtime, beginning)),
            // The first renewal is sent at once.
            guard_ms: AtomicU64::new(u64::try_from(timing.guard().as_millis()).unwrap_or(u64::MAX)),
            contenders: OwnContenders::default(),
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

    /// Opens another connection, for the session alone.
    pub(super) async fn connect(&self, server: &Server, deadline: BootInstant) -> Result<Connection, Failure> {
        Connection::open(server, &self.config.access, &self.life.clock, deadline).await
    }

    /// Sends a batch over a connection, whose use ends if it brings nothing any more.
    pub(crate) fn send(
        &self,
        link: &Arc<Link>,
        batch: Batch,
        operation: Operation,
    ) -> BoxFuture<Result<Vec<Value>, Failure>> {
        let (asking, life, link) = (link.connection.send(batch), self.life.clone(), link.clone());
        Box::pin(async move { life.hear(&*link, operation, asking.await) })
    }

    /// The epoch of a connection with this number: joins of a lower one have no effect any more.
    pub(crate) fn epoch(&self, number: u64) -> String {
        if self.life.testing.has(Bug::IgnoresEpochs) { "1".to_owned() } else { number.to_string() }
    }
}
