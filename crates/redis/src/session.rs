//! A session: its record in the service, renewed over one connection after the other, and until when it is believed.
//!
//! Here is what its parts share, and the wait for copies, where the URL asks for it: so many replicas must have what a
//! session or a contender stands on. Replication is asynchronous. The wait narrows the time in which a promotion can
//! lose a grant, and does not end it: a replica that has not heard of it may be promoted all the same.
//!
//! - `belief`: until when a session is believed, pure. `driver`: opens it, and keeps it.

mod belief;
mod driver;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, Operation};
use lockkeeper_session::{Beginning, Bug, Effect, Failure, FailureKind, Life, OwnContenders, Server};
use redis::{Value, cmd};
use tokio::runtime::Handle;

use crate::connection::{Batch, Connection, answer, number};
use crate::layout::{Layout, RedisSessionId};
use crate::url::{Config, RedisSite};
pub(crate) use belief::Timing;
pub(crate) use driver::{open, taught, teach};

/// A connection that a session has been taken over to.
pub(crate) type RedisLink = lockkeeper_session::Linked<Connection>;

/// The shared state of a session. It does not keep the session alive.
pub(crate) struct Core {
    pub(crate) config: Arc<Config>,
    pub(crate) layout: Layout,
    pub(crate) id: RedisSessionId,
    pub(crate) timing: Timing,
    pub(crate) life: Arc<Life<RedisLink>>,
    /// The least guard of all sessions as the last renewal was told it, in milliseconds.
    guard_ms: AtomicU64,
    /// The contenders that renewals ask for.
    /// Each with part, name and member, as the script of renewals asks for it.
    pub(crate) contenders: OwnContenders<[String; 3]>,
}

impl Core {
    /// Begins a session that was asked for at this moment.
    fn new(site: &RedisSite, id: RedisSessionId, opened_at: BootInstant, runtime: Handle) -> Self {
        let RedisSite { config, layout, clock, testing } = site.clone();
        let timing = Timing { timeout: config.session_timeout() };
        let safe_until = opened_at.saturating_add(timing.belief());
        let beginning = Beginning::timed(timing, id.to_string(), testing, safe_until, config.operation_timeout);
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
    fn renews_under(&self, guard_ms: u64) {
        self.guard_ms.store(guard_ms, Ordering::Relaxed);
    }

    /// Notes the guard, in milliseconds, that stands now. If it is less than that by which the next renewal is timed,
    /// that would come too late: the service's clock falls behind, and the dead are removed late. So it is sent now.
    pub(crate) fn heard_of_guard(&self, guard_ms: u64) {
        if guard_ms < self.guard_ms.fetch_min(guard_ms, Ordering::Relaxed) {
            self.life.urge();
        }
    }

    async fn connect(&self, server: &Server, deadline: BootInstant) -> Result<Connection, Failure> {
        Connection::open(server, &self.config.access, &self.life.clock, deadline).await
    }

    /// Sends a batch over a connection, which is given up if it fails.
    pub(crate) fn send(
        &self,
        link: &Arc<RedisLink>,
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

/// How long the copies may take: more than the round trip to any replica that is of use …
const WAIT_MAX: Duration = Duration::from_secs(1);

/// … and at most this part of the session timeout, so that the connection is not given up meanwhile.
const WAIT_DIVISOR: u32 = 10;

fn wait(config: &Config) -> Duration {
    (config.session_timeout() / WAIT_DIVISOR).min(WAIT_MAX)
}

/// Waits for the copies of what was sent before.
pub(crate) fn copied(batch: Batch, config: &Config) -> Batch {
    if config.replicas == 0 {
        return batch;
    }
    let mut copies = cmd("WAIT");
    copies.arg(config.replicas).arg(wait(config).as_millis().to_string());
    batch.command(copies)
}

/// Reads from the answers whether there are enough copies.
pub(crate) fn check_copies(config: &Config, answers: &mut impl Iterator<Item = Value>) -> Result<(), Failure> {
    let wanted = config.replicas;
    if wanted == 0 {
        return Ok(());
    }
    let waited = answer(answers.next().ok_or_else(Failure::unexpected)?, "WAIT")?;
    let count = number(&waited)?;
    if count >= u64::from(wanted) {
        return Ok(());
    }
    let message = format!("{count} of the {wanted} replicas that `replicas` asks for have it after {:?}", wait(config));
    Err(Failure::new(FailureKind::TooFewReplicas, Effect::None, message))
}
