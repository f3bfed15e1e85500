//! A session: its row in the database, its beats over one connection after the other, and until when it is believed.
//!
//! This file has the state that its parts share, and its keeping: how it is opened, what its connections are used for,
//! how it is taken over, and how it is ended. What locks do under it, `queue` knows; how a connection works, the
//! engine.

mod beat;
mod others;
mod serving;
mod settling;
mod waits;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, LossReason, Operation, Owner, Result, Ticket};
use lockkeeper_session::{
    Beginning, Bug, Effect, FIRST_CONNECTION, Failure, FailureKind, Keeping, Life, OwnContenders, Server,
    SessionTiming as _, Unclaimed, in_time, keep, runtime_for, until,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::engine::{Connected, DatabaseEngine, Intent, Wire};
use crate::look::{GreetedWire, SqlLink};
use crate::session::beat::TakenConnection;
use crate::session::others::Others;
use crate::session::settling::{Unsettled, greet};
use crate::session::waits::Waits;
use crate::site::SqlSite;
use crate::statement::{AnswerRow, Argument, SessionNumber, Statement, status, word};
use crate::timing::Timing;
use crate::url::Config;

pub(crate) use waits::{WaitEnd, WaitHandle};

#[cfg(all(test, feature = "testing"))]
mod tests;

/// The number of the beat with which a session is opened.
const FIRST_BEAT: i64 = 1;

/// How many pieces of a session are ended one after the other: more contenders than one process is tested with.
const PIECES_MAX: usize = 10_000;

/// One in so many sessions removes the rows of queues that were idle for long.
const SWEEPS_ONE_IN: u64 = 64;

/// How long the end of a session that is not used may take.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// What the parts of a session share. Holding it does not keep the session alive.
pub(crate) struct Core {
    pub(crate) id: SessionNumber,
    pub(crate) timing: Timing,
    pub(crate) life: Arc<Life<SqlLink>>,
    last_beat: AtomicI64,
    pub(crate) contenders: OwnContenders,
    /// The contenders that another state of the data lacks, until they are asked after. Those that stood then are their
    /// limit.
    displaced: Mutex<BTreeSet<Ticket>>,
    pub(crate) waits: Waits,
}

impl Core {
    fn new(site: &SqlSite, id: SessionNumber, opened_at: BootInstant, runtime: Handle) -> Self {
        let SqlSite { config, clock, testing, .. } = site.clone();
        let timing = Timing { timeout: config.session_timeout() };
        let safe_until = opened_at.saturating_add(timing.belief());
        let (session, operation_timeout) = (id.to_string(), config.operation_timeout);
        let beginning = Beginning { session, testing, timing, safe_until, operation_timeout };
        Self {
            id,
            timing,
            waits: Waits::new(clock.clone(), id.seed(), timing.patience()),
            life: Arc::new(Life::new(clock, runtime, beginning)),
            last_beat: AtomicI64::new(FIRST_BEAT),
            contenders: OwnContenders::default(),
            displaced: Mutex::default(),
        }
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
        self.last_beat.fetch_add(1, Ordering::Relaxed) + 1
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

/// Drives one session until it is over.
struct Driver {
    core: Arc<Core>,
    engine: Arc<dyn DatabaseEngine>,
    /// The state of the data that was not settled when it was seen last.
    unsettled: Option<Unsettled>,
}

impl Keeping for Driver {
    type Link = SqlLink;
    type Taken = TakenConnection;

    fn life(&self) -> &Life<SqlLink> {
        &self.core.life
    }

    fn link(taken: &TakenConnection) -> Arc<SqlLink> {
        taken.link.clone()
    }

    fn patience(&self) -> Duration {
        self.core.timing.patience()
    }

    async fn serve(&mut self, taken: TakenConnection) -> Failure {
        let core = &self.core;
        let TakenConnection { link, hints, unsettled, proven_at } = taken;
        self.unsettled.clone_from(&unsettled);
        let others = Others::new(core);
        tokio::select! {
            biased;
            () = link.connection.wire.over() => Failure::broken(Effect::None),
            Err(failure) = settling::attach(core, &link, unsettled.as_ref()) => failure,
            never = serving::serve(core, &link, hints) => match never {},
            never = others.run(core, &link) => match never {},
            failure = beat::run(core, &link, &others, proven_at) => failure,
        }
    }

    fn detached(&self) {
        self.core.waits.on_table(|table, _| table.end());
    }

    async fn take_over(&self, server: Server, number: u64, deadline: BootInstant) -> Result<TakenConnection, Failure> {
        let connected = self.engine.connect(&server, deadline, Intent::Serve).await?;
        let wire = connected.wire.clone();
        let restored = beat::restore(&self.core, connected, number, server, self.unsettled.as_ref()).await;
        restored.inspect_err(|_| wire.shut())
    }

    async fn end(&mut self, link: &SqlLink) -> Result<(), Failure> {
        close(&self.core, &*link.connection.wire).await
    }

    async fn end_at(&self, server: Server, deadline: BootInstant) -> Result<(), Failure> {
        let wire = self.engine.connect(&server, deadline, Intent::Serve).await?.wire;
        let closed = close(&self.core, &*wire).await;
        wire.shut();
        closed
    }
}

/// Ends the session over a connection, piece by piece.
async fn close(core: &Core, wire: &dyn Wire) -> Result<(), Failure> {
    for _ in 0..PIECES_MAX {
        let asking = wire.ask(Statement::new("close", vec![core.id.into()]));
        if status(&core.patiently(asking).await?)?.number == Some(0) {
            return Ok(());
        }
    }
    Err(Failure::unexpected())
}

/// Opens a session at the first server that serves locks. Dropping the future ends what it has begun.
pub(crate) async fn open(site: SqlSite) -> Result<Arc<Core>> {
    let runtime = runtime_for("a database")?;
    let deadline = site.clock.now().saturating_add(site.config.connect_timeout);
    let mut finder = site.config.finder(&site.clock);
    let (site, place) = (&site, &runtime);
    let opened = finder.round(deadline, |server, attempt_ends| async move {
        let connected = site.engine.connect(&server, attempt_ends, Intent::Serve).await?;
        // Each attempt opens another session: the end of one that failed may come late.
        let id = Ticket::mint().map_err(|error| Failure::unreachable("no session can be named", error))?;
        attempt(site, SessionNumber(id.bits()), connected, server, attempt_ends, place).await
    });
    let (core, taken) = opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))?;
    let driver = Driver { core: core.clone(), engine: site.engine.clone(), unsettled: None };
    runtime.spawn(keep(driver, finder, taken));
    Ok(core)
}

async fn attempt(
    site: &SqlSite,
    id: SessionNumber,
    connected: Connected,
    server: Server,
    deadline: BootInstant,
    runtime: &Handle,
) -> Result<(Arc<Core>, TakenConnection), Failure> {
    let SqlSite { config, clock, .. } = site;
    let Connected { wire, greeting, hints } = connected;
    let greeted = wire.ask(greet(&greeting.instance));
    let opened_at = clock.now();
    let opened = wire.ask(begin(config, id));
    let wire = Unclaimed::new(wire, |wire| {
        let (closing, clock) = (wire.ask(Statement::new("close", vec![id.into()])), clock.clone());
        runtime.spawn(async move {
            // What could not be ended runs out.
            tokio::select! {
                _ = closing => {}
                () = clock.sleep_until(clock.now().saturating_add(CLOSED_WITHIN)) => {}
            }
            wire.shut();
        });
    });
    let answers = async {
        let greeted = greeted.await?;
        let unsettled = Unsettled::read(&greeted, clock.now(), None)?;
        Ok((unsettled, opened.await?))
    };
    let (unsettled, opened) = until(&**clock, deadline, Effect::Unknown, answers).await?;
    match word(&opened)? {
        // It says the same of the data's state as the answer before.
        "ok" | "unsettled" => {}
        "long" => return Err(too_long(config, status(&opened)?.timeout_ms.unwrap_or_default())),
        _ => return Err(Failure::unexpected()),
    }
    let core = Arc::new(Core::new(site, id, opened_at, runtime.clone()));
    let link = SqlLink::new(GreetedWire::new(wire.claim(), server, greeting), FIRST_CONNECTION, ());
    Ok((core, TakenConnection { link, hints, unsettled, proven_at: opened_at }))
}

fn begin(config: &Config, id: SessionNumber) -> Statement {
    let timeout_ms = i64::try_from(config.session_timeout().as_millis()).unwrap_or(i64::MAX);
    let sweeps = id.seed().is_multiple_of(SWEEPS_ONE_IN);
    let owner = Owner::this_process().to_string();
    let arguments = vec![id.into(), Argument::Int(timeout_ms), Argument::Text(owner), Argument::Flag(sweeps)];
    Statement::new("open", arguments)
}

/// Says that no session may be opened with such a timeout: after a loss of data, others would not wait for its end.
fn too_long(config: &Config, timeout_max_ms: i64) -> Failure {
    let (timeout, schema) = (config.session_timeout(), &config.schema);
    let timeout_max = Duration::from_millis(timeout_max_ms.unsigned_abs());
    let message = format!(
        "a session timeout of {timeout:?} is longer than the {timeout_max:?} that the schema `{schema}` allows; an \
         administrator allows it by: lockkeeper setup --max-session-timeout {}ms",
        timeout.as_millis()
    );
    Failure::new(FailureKind::Settings, Effect::None, message)
}
