//! A session: its row in the database, its beats over one connection after the other, and until when it is believed.
//!
//! This file has the state that its parts share. What locks do under it, `queue` knows; how a connection works, the
//! engine.

mod beat;
mod driver;
mod others;
mod serving;
mod settling;
mod waits;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, LossReason, Ticket};
use lockkeeper_session::{Beginning, Bug, Failure, Life, OwnContenders, SessionTiming as _, in_time};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::look::SqlLink;
use crate::session::waits::Waits;
use crate::site::SqlSite;
use crate::statement::{AnswerRow, Argument, SessionNumber, Statement};
use crate::timing::{Timing, beat_after};

pub(crate) use driver::open;
pub(crate) use waits::{WaitEnd, WaitHandle};

#[cfg(all(test, feature = "testing"))]
mod tests;

/// The number of the beat with which a session is opened.
const FIRST_BEAT: i64 = 1;

/// What the parts of a session share. Holding it does not keep the session alive.
pub(crate) struct Core {
    pub(crate) id: SessionNumber,
    pub(crate) timing: Timing,
    /// Since when it can observe others.
    pub(crate) opened_at: BootInstant,
    pub(crate) life: Arc<Life<SqlLink>>,
    last_beat: AtomicI64,
    pub(crate) contenders: OwnContenders,
    /// The contenders that another state of the data lacks, until they are asked after. Those that stood then are their
    /// limit.
    displaced: Mutex<BTreeSet<Ticket>>,
    pub(crate) waits: Waits,
    /// The greatest timeout of sessions, as it was told last; see the site.
    timeout_max_ms: Arc<AtomicI64>,
}

impl Core {
    fn new(site: &SqlSite, id: SessionNumber, opened_at: BootInstant, runtime: Handle) -> Self {
        let SqlSite { config, clock, testing, timeout_max_ms, .. } = site.clone();
        let timing = Timing { timeout: config.session_timeout() };
        let safe_until = opened_at.saturating_add(timing.belief());
        let (session, operation_timeout) = (id.to_string(), config.operation_timeout);
        let beginning = Beginning { session, testing, timing, safe_until, operation_timeout };
        Self {
            id,
            timing,
            opened_at,
            waits: Waits::new(clock.clone(), id.seed(), timing.patience()),
            life: Arc::new(Life::new(clock, runtime, beginning)),
            last_beat: AtomicI64::new(FIRST_BEAT),
            contenders: OwnContenders::default(),
            displaced: Mutex::default(),
            timeout_max_ms,
        }
    }

    /// The greatest timeout of sessions that settled data told last; none until then.
    pub(super) fn timeout_max_told(&self) -> Duration {
        Duration::from_millis(self.timeout_max_ms.load(Ordering::Relaxed).unsigned_abs())
    }

    /// Why a contender of ours is gone that the data do not know.
    pub(crate) fn reason_of_absence(&self, ticket: Ticket) -> LossReason {
        if self.displaced.lock().remove(&ticket) { LossReason::Displaced } else { LossReason::Removed }
    }

    /// Notes that a beat was answered that was sent at this moment.
    pub(super) fn proven(&self, sent_at: BootInstant) {
        let counts_late = self.life.testing.has(Bug::CountsFromReplies);
        let sent_at = if counts_late { self.life.clock.now() } else { sent_at };
        self.life.proven_for(sent_at, self.timing.belief());
    }

    /// Returns the number of the next beat, greater than any before.
    pub(super) fn next_beat(&self) -> i64 {
        let now_unix = self.life.clock.unix_time();
        let update = |last| Some(beat_after(last, now_unix));
        let last = self.last_beat.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        beat_after(last.expect("each has a next one"), now_unix)
    }

    /// Whether the session holds or waits, or is about to.
    pub(super) fn is_busy(&self) -> bool {
        !self.contenders.is_empty() || !self.waits.on_table(|table, _| table.is_empty())
    }

    /// Puts a connection to use; what has waited for it is sent first.
    pub(super) fn attach(&self, link: Arc<SqlLink>) {
        self.waits.attach(&link);
        self.life.attach(link);
    }

    /// Asks over a connection, whose use ends if it brings nothing any more. It is sent, or stands in the connection's
    /// line, before this returns.
    pub(crate) fn ask(&self, link: &Arc<SqlLink>, statement: Statement) -> BoxFuture<Result<Vec<AnswerRow>, Failure>> {
        let function = statement.function;
        let (asking, life, link) = (link.connection.wire.ask(statement), self.life.clone(), link.clone());
        Box::pin(async move { life.hear(&*link, function, asking.await) })
    }

    /// Waits for an answer that keeps the session: one that takes too long shows that the connection is of no use.
    pub(super) async fn patiently<T>(&self, asking: BoxFuture<Result<T, Failure>>) -> Result<T, Failure> {
        let deadline = self.life.clock.now().saturating_add(self.timing.patience());
        in_time(&*self.life.clock, deadline, asking).await
    }

    /// The epoch of a connection with this number: what was sent under a lower one has no effect any more.
    pub(crate) fn epoch(&self, number: u64) -> i64 {
        if self.life.testing.has(Bug::IgnoresEpochs) { 1 } else { i64::try_from(number).unwrap_or(i64::MAX) }
    }

    /// The statement that has an effect only while this connection is the session's latest.
    pub(crate) fn of_epoch(&self, link: &SqlLink, function: &'static str, fixed: &[Argument]) -> Statement {
        let mut arguments = vec![self.id.into(), Argument::Int(self.epoch(link.number))];
        arguments.extend_from_slice(fixed);
        Statement::new(function, arguments)
    }
}
