//! A session: its record in the service, renewed over one connection after the other, and until when it is believed.
//!
//! Here is what its parts share, and its keeping: it is opened, renewed over one connection, taken over to the next
//! one, and ended. A renewal removes what dead sessions have left.
//!
//! Where the URL asks for it, copies are waited for: so many replicas must have what a session or a contender stands
//! on. Replication is asynchronous. The wait narrows the time in which a promotion can lose a grant, and does not end
//! it: a replica that has not heard of it may be promoted all the same.
//!
//! `belief` says until when a session is believed, pure.

mod belief;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{BoxFuture, Operation, Owner, Result, Ticket};
use lockkeeper_session::{
    Beginning, Bug, Effect, FIRST_CONNECTION, Failure, FailureKind, Keeping, Life, Lookable as _, News, OwnContenders,
    Server, SessionTiming as _, Unclaimed, keep, late, of_task, runtime_for,
};
use redis::{Value, cmd};
use tokio::runtime::Handle;

use crate::connection::{
    Batch, Connection, KeyWake, OpenedConnection, answer, list, number, only, text, until_replaced,
};
use crate::layout::{Layout, RedisSessionId};
use crate::script::Script;
use crate::url::{ClockGuard, Config, RedisSite};
pub(crate) use belief::Timing;

/// How long the copies may take: more than the round trip to any replica that is of use …
const WAIT_MAX: Duration = Duration::from_secs(1);

/// … and at most this part of the session timeout, so that the connection is not given up meanwhile.
const WAIT_DIVISOR: u32 = 10;

/// How many pieces of a session are ended in turn: more contenders than one process is tested with.
const PIECES_MAX: usize = 10_000;

/// The pause before the next renewal if more of dead sessions is to be removed: others wait for the server too.
const REMOVAL_PAUSE: Duration = Duration::from_millis(5);

/// The greatest step of the service's clock where the server's clock is trusted, in milliseconds: a century.
const TRUSTED_GUARD_MS: u128 = 100 * 365 * 24 * 60 * 60 * 1_000;

/// How long the end of a session that is not used may take.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

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
        let (session, operation_timeout) = (id.to_string(), config.operation_timeout);
        let beginning = Beginning { session, testing, timing, safe_until, operation_timeout };
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

struct Driver(Arc<Core>);

impl Keeping for Driver {
    type Link = RedisLink;
    type Taken = Arc<RedisLink>;

    fn life(&self) -> &Life<RedisLink> {
        &self.0.life
    }

    fn link(taken: &Arc<RedisLink>) -> Arc<RedisLink> {
        taken.clone()
    }

    fn patience(&self) -> Duration {
        self.0.timing.patience()
    }

    async fn serve(&mut self, link: Arc<RedisLink>) -> Failure {
        let core = &self.0;
        let (clock, server) = (&core.life.clock, link.connection.server());
        core.life.attach(link.clone());
        tokio::select! {
            biased;
            () = link.connection.over() => Failure::broken(Effect::None),
            Err(failure) = until_gone(core, &link.connection) => failure,
            failure = until_replaced(&core.config, clock, server, core.timing.holding_interval()) => failure,
            failure = renew_until_lost(core, &link) => failure,
        }
    }

    async fn take_over(&self, server: Server, number: u64, deadline: BootInstant) -> Result<Arc<RedisLink>, Failure> {
        restore(&self.0, self.0.connect(&server, deadline).await?, number, deadline).await
    }

    async fn end(&mut self, link: &RedisLink) -> Result<(), Failure> {
        close(&self.0, &link.connection, Batch::new).await
    }

    async fn end_at(&self, server: Server, deadline: BootInstant) -> Result<(), Failure> {
        let connection = self.0.connect(&server, deadline).await?;
        close(&self.0, &connection, || teach(&self.0.layout)).await
    }
}

/// Ends the session over a connection, piece by piece.
async fn close(core: &Core, connection: &Connection, begin: impl Fn() -> Batch) -> Result<(), Failure> {
    for _ in 0..PIECES_MAX {
        let deadline = core.life.clock.now().saturating_add(core.timing.patience());
        let batch = begin().script(core.layout.script(Script::Close), &[core.layout.base()], core.id.to_string());
        if number(&taught(connection.send_until(batch, deadline).await?, "close")?)? == 0 {
            return Ok(());
        }
    }
    Err(Failure::unexpected())
}

struct Renewed {
    /// The greatest step of the service's clock.
    guard: Duration,
    /// Whether more remains of dead sessions.
    has_more_dead: bool,
}

/// Renews until the connection fails, or the service has ended the session: then the failure's kind is
/// [`FailureKind::SessionGone`](lockkeeper_session::FailureKind::SessionGone).
async fn renew_until_lost(core: &Arc<Core>, link: &Arc<RedisLink>) -> Failure {
    loop {
        let sent_at = core.life.clock.now();
        let pause = match renew(core, link, sent_at).await {
            Ok(Renewed { has_more_dead: true, .. }) => REMOVAL_PAUSE,
            Ok(Renewed { guard, .. }) => core.timing.interval_under(guard),
            Err(failure) if failure.keeps_connection() => {
                core.life.set_trouble(Some(failure));
                core.timing.again_interval()
            }
            Err(failure) => return failure,
        };
        tokio::select! {
            biased;
            () = core.life.urged() => {}
            () = core.life.clock.sleep_until(sent_at.saturating_add(pause)) => {}
        }
    }
}

async fn renew(core: &Arc<Core>, link: &Arc<RedisLink>, sent_at: BootInstant) -> Result<Renewed, Failure> {
    let mut arguments = vec![core.id.to_string(), core.timing.timeout.as_millis().to_string()];
    arguments.extend(core.contenders.next().into_iter().flat_map(|(_, at)| at));
    let batch = Batch::new().script(core.layout.script(Script::Renew), &[core.layout.base()], arguments);
    let asking = core.send(link, copied(batch, &core.config), Operation::Connect);
    let answers = tokio::select! {
        biased;
        answers = asking => answers?,
        () = late(&*core.life.clock, sent_at.saturating_add(core.timing.patience())) => {
            return Err(Failure::broken(Effect::Unknown));
        }
    };
    let mut answers = answers.into_iter();
    let mut answer = list(answer(answers.next().ok_or_else(Failure::unexpected)?, "renew")?)?.into_iter();
    let mut next = || answer.next().ok_or_else(Failure::unexpected);
    if text(next()?)? == "gone" {
        return Err(Failure::session_gone());
    }
    let (guard_ms, has_more_dead) = (number(&next()?)?, number(&next()?)? != 0);
    check_copies(&core.config, &mut answers)?;
    core.renews_under(guard_ms);
    core.renewed(sent_at);
    core.life.set_trouble(None);
    for gone in answer {
        if let Some(ticket) = Ticket::parse(&text(gone)?) {
            core.contenders.tell(News::Missing(ticket));
        }
    }
    Ok(Renewed { guard: Duration::from_millis(guard_ms), has_more_dead })
}

/// Waits until the service says that the session is over: the key that is there while the session is was deleted.
/// Fails otherwise too.
async fn until_gone(core: &Core, connection: &Connection) -> Result<Infallible, Failure> {
    loop {
        let told = connection.wait_for(core.layout.alive(core.id).as_bytes())?;
        let answers = connection.send(Batch::new().tracked("GET", told.key())).await?;
        if answer(only(answers)?, "GET")? == Value::Nil {
            return Err(Failure::session_gone());
        }
        if told.await == KeyWake::ConnectionOver {
            return Err(Failure::broken(Effect::None));
        }
    }
}

/// Begins a batch with all scripts.
pub(crate) fn teach(layout: &Layout) -> Batch {
    layout.scripts().iter().fold(Batch::new(), Batch::load)
}

/// Reads the answers to such a batch; returns the last one, which is that of the next command.
pub(crate) fn taught(mut answers: Vec<Value>, what: &str) -> Result<Value, Failure> {
    let last = answers.pop().ok_or_else(Failure::unexpected)?;
    for loaded in answers {
        answer(loaded, "SCRIPT LOAD")?;
    }
    answer(last, what)
}

/// Reads the answers to such a batch, to its script and to the wait for copies behind that; returns the first word of
/// the script's. There are enough copies if it is `ok`.
fn taught_and_copied(layout: &Layout, config: &Config, mut answers: Vec<Value>, what: &str) -> Result<String, Failure> {
    let copies = answers.split_off((layout.scripts().len() + 1).min(answers.len()));
    let mut answer = list(taught(answers, what)?)?.into_iter();
    let word = text(answer.next().ok_or_else(Failure::unexpected)?)?;
    if word == "ok" {
        check_copies(config, &mut copies.into_iter())?;
    }
    Ok(word)
}

/// Takes a session over to another connection. From then on no join of an older one takes effect.
async fn restore(
    core: &Core,
    connection: Connection,
    number: u64,
    deadline: BootInstant,
) -> Result<Arc<RedisLink>, Failure> {
    let sent_at = core.life.clock.now();
    let timeout = core.timing.timeout.as_millis().to_string();
    let arguments = [core.id.to_string(), timeout, core.epoch(number)];
    let batch = teach(&core.layout).script(core.layout.script(Script::Attach), &[core.layout.base()], &arguments[..]);
    let answers = connection.send_until(copied(batch, &core.config), deadline).await?;
    match taught_and_copied(&core.layout, &core.config, answers, "attach")?.as_str() {
        "ok" => {
            core.renewed(sent_at);
            Ok(RedisLink::new(connection, number, ()))
        }
        "gone" => Err(Failure::session_gone()),
        _ => Err(Failure::superseded()),
    }
}

/// Opens a session at the first server that lets us. Dropping the future ends what it has begun.
pub(crate) async fn open(site: RedisSite) -> Result<Arc<Core>> {
    let runtime = runtime_for("Redis")?;
    let deadline = site.clock.now().saturating_add(site.config.connect_timeout);
    let mut finder = site.config.finder(&site.clock);
    let (site, place) = (&site, &runtime);
    let opened = finder.round(deadline, |server, attempt_ends| async move {
        // Each attempt opens another session: the end of one that failed may come late, and under another name of the
        // same server.
        let bits = Ticket::mint().map_err(|error| Failure::unreachable("no session can be named", error))?.bits();
        attempt(site, RedisSessionId::from_random(bits), server, attempt_ends, place).await
    });
    let (core, link) = opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))?;
    runtime.spawn(keep(Driver(core.clone()), finder, link));
    Ok(core)
}

async fn attempt(
    site: &RedisSite,
    id: RedisSessionId,
    server: Server,
    deadline: BootInstant,
    runtime: &Handle,
) -> Result<(Arc<Core>, Arc<RedisLink>), Failure> {
    let RedisSite { config, layout, clock, .. } = site;
    let timing = Timing { timeout: config.session_timeout() };
    let guard_ms = match config.clock_guard {
        ClockGuard::Guarded => timing.guard().as_millis(),
        ClockGuard::Trusting => TRUSTED_GUARD_MS,
    };
    let owner = Owner::this_process().to_string();
    let arguments = [id.to_string(), timing.timeout.as_millis().to_string(), guard_ms.to_string(), owner];
    let (layout, config, clock) = (layout.clone(), config.clone(), clock.clone());
    // It goes on if the caller gives up, so that the session can be ended then.
    let connecting = runtime.spawn(async move {
        let script = || teach(&layout).script(layout.script(Script::Open), &[layout.base()], &arguments[..]);
        Connection::open_with(|| copied(script(), &config), &server, &config.access, &clock, deadline).await
    });
    let mut opening = Unclaimed::new(connecting, |connecting| {
        let closing = close_unused(site, id);
        runtime.spawn(async move {
            // Without an answer there is no way to the session, if there is one. It expires.
            if let Ok(Ok(opened)) = connecting.await {
                closing(opened.connection).await;
            }
        });
    });
    let opened = (&mut *opening).await.map_err(of_task);
    drop(opening.claim());
    let OpenedConnection { connection, sent_at: opened_at, answers } = opened??;
    let connection = Unclaimed::new(connection, |connection| drop(runtime.spawn(close_unused(site, id)(connection))));
    site.config.check(&connection)?;
    if taught_and_copied(&site.layout, &site.config, answers?, "open")? != "ok" {
        return Err(Failure::unexpected());
    }
    let core = Arc::new(Core::new(site, id, opened_at, runtime.clone()));
    Ok((core, RedisLink::new(connection.claim(), FIRST_CONNECTION, ())))
}

fn close_unused(site: &RedisSite, id: RedisSessionId) -> impl FnOnce(Connection) -> BoxFuture<()> + Send + use<> {
    let batch = Batch::new().script(site.layout.script(Script::Close), &[site.layout.base()], id.to_string());
    let clock = site.clock.clone();
    move |connection| {
        Box::pin(async move {
            // A session that could not be ended expires.
            let _ = connection.send_until(batch, clock.now().saturating_add(CLOSED_WITHIN)).await;
        })
    }
}
