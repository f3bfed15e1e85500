//! The keeping of a session on a database: how it is opened, what its connections are used for, how it is taken over,
//! and how it is ended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Operation, Owner, Result, Ticket};
use lockkeeper_session::{
    Effect, FIRST_CONNECTION, Failure, FailureKind, Keeping, Life, Link as _, Server, SessionTiming as _, Unclaimed,
    keep, runtime_for, until,
};
use tokio::runtime::Handle;

use crate::engine::{Connected, Intent, Wire};
use crate::look::{GreetedWire, SqlLink};
use crate::session::beat::{self, TakenConnection};
use crate::session::others::Others;
use crate::session::settling::{self, DataState, Unsettled, greet};
use crate::session::{Core, serving};
use crate::site::SqlSite;
use crate::statement::{Argument, SessionNumber, Statement, status, word};
use crate::trial;
use crate::url::Config;

/// How many pieces of a session are ended one after the other: more contenders than one process is tested with.
const PIECES_MAX: usize = 10_000;

/// One in so many sessions removes the rows of queues that were idle for long.
const SWEEPS_ONE_IN: u64 = 64;

/// How long the end of a session that is not used may take.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// Drives one session until it is over.
struct Driver {
    core: Arc<Core>,
    site: SqlSite,
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
        let TakenConnection { link, hints, state, proven_at } = taken;
        self.unsettled = state.unsettled().cloned();
        let others = Others::new(core);
        tokio::select! {
            biased;
            () = link.connection.wire.over() => Failure::broken(Effect::None),
            Err(failure) = self.attach(&link, state) => failure,
            never = serving::serve(core, &link, hints) => match never {},
            never = others.run(core, &link) => match never {},
            failure = beat::run(core, &link, &others, proven_at) => failure,
        }
    }

    fn detached(&self) {
        self.core.waits.on_table(|table, _| table.end());
    }

    async fn take_over(&self, server: Server, number: u64, deadline: BootInstant) -> Result<TakenConnection, Failure> {
        let connected = self.site.engine.connect(&server, deadline, Intent::Serve).await?;
        let wire = connected.wire.clone();
        let restored = beat::restore(&self.core, connected, number, server, self.unsettled.as_ref()).await;
        restored.inspect_err(|_| wire.shut())
    }

    async fn end(&mut self, link: &SqlLink) -> Result<(), Failure> {
        close(&self.core, &*link.connection.wire).await
    }

    async fn end_at(&self, server: Server, deadline: BootInstant) -> Result<(), Failure> {
        let wire = self.site.engine.connect(&server, deadline, Intent::Serve).await?.wire;
        let closed = close(&self.core, &*wire).await;
        wire.shut();
        closed
    }
}

impl Driver {
    /// Puts a connection to use: at once, or once the state of its data is settled and its server has passed its trial.
    async fn attach(&self, link: &Arc<SqlLink>, state: DataState) -> Result<Infallible, Failure> {
        let name = match state {
            DataState::Settled(name) => name,
            DataState::Unsettled(unsettled) => {
                let name = settling::until_settled(&self.core, link, &unsettled).await?;
                let deadline = self.core.life.clock.now().saturating_add(self.site.config.connect_timeout);
                trial::pass(&self.site, link.server(), deadline).await?;
                name
            }
        };
        // A connection is put to use once.
        let _ = link.connection.served.set(name);
        self.core.attach(link.clone());
        std::future::pending().await
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
        let opened = attempt(site, SessionNumber(id.bits()), connected, server.clone(), attempt_ends, place).await?;
        let (core, taken) = &opened;
        if taken.state.unsettled().is_none()
            && let Err(failure) = trial::pass(site, &server, attempt_ends).await
        {
            let wire = &taken.link.connection.wire;
            // What could not be ended runs out.
            let _ = close(core, &**wire).await;
            wire.shut();
            return Err(failure);
        }
        Ok(opened)
    });
    let (core, taken) = opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))?;
    let driver = Driver { core: core.clone(), site: site.clone(), unsettled: None };
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
        let state = DataState::read(&greeted, clock.now(), None)?;
        Ok((state, opened.await?))
    };
    let (state, opened) = until(&**clock, deadline, Effect::Unknown, answers).await?;
    match word(&opened)? {
        // It says the same of the data's state as the answer before.
        "ok" | "unsettled" => {}
        "long" => return Err(too_long(config, status(&opened)?.timeout_ms.unwrap_or_default())),
        _ => return Err(Failure::unexpected()),
    }
    let core = Arc::new(Core::new(site, id, opened_at, runtime.clone()));
    let link = SqlLink::new(GreetedWire::new(wire.claim(), server, greeting), FIRST_CONNECTION, ());
    Ok((core, TakenConnection { link, hints, state, proven_at: opened_at }))
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
