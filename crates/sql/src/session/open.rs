//! Opens a session: its row in the database, and the connection over which it was made.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Operation, Owner, Result, Ticket};
use lockkeeper_session::{Effect, FIRST_CONNECTION, Failure, FailureKind, Server, Unclaimed, keep, runtime_for};
use tokio::runtime::Handle;

use crate::engine::{Connected, Intent};
use crate::look::Lookout;
use crate::session::Link;
use crate::session::core::Core;
use crate::session::driver::Driver;
use crate::session::restore::Taken;
use crate::session::settling::{Unsettled, greet};
use crate::site::Site;
use crate::statement::{Argument, Row, SessionId, Statement, status, word};
use crate::url::Config;

/// One in so many sessions removes the rows of queues that were idle for long.
const SWEEPS_ONE_IN: u64 = 64;

/// How long the end of a session that is not used may take.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// Opens a session at the first server that serves locks. Dropping the future ends what it has begun.
pub(crate) async fn open(site: Site) -> Result<Arc<Core>> {
    let runtime = runtime_for("a database")?;
    let deadline = site.clock.now().saturating_add(site.config.connect_timeout);
    let mut finder = site.config.finder(&site.clock);
    let (site, place) = (&site, &runtime);
    let opened = finder.round(deadline, |server, attempt_ends| async move {
        let connected = site.engine.connect(&server, attempt_ends, Intent::Serve).await?;
        // Each attempt opens another session: the end of one that failed may come late.
        let id = Ticket::mint().map_err(|error| Failure::unreachable("no session can be named", error))?;
        attempt(site, SessionId(id.bits()), connected, server, attempt_ends, place).await
    });
    let (core, taken) = opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))?;
    runtime.spawn(keep(Driver::new(core.clone(), site.engine.clone()), finder, taken));
    Ok(core)
}

async fn attempt(
    site: &Site,
    id: SessionId,
    connected: Connected,
    server: Server,
    deadline: BootInstant,
    runtime: &Handle,
) -> Result<(Arc<Core>, Taken), Failure> {
    let Site { config, clock, .. } = site;
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
        Ok::<_, Failure>((unsettled, opened.await?))
    };
    let (unsettled, opened): (_, Vec<Row>) = tokio::select! {
        biased;
        answers = answers => answers?,
        () = clock.sleep_until(deadline) => return Err(Failure::late(Effect::Unknown)),
    };
    match word(&opened)? {
        // It says the same of the data's state as the answer before.
        "ok" | "unsettled" => {}
        "long" => return Err(too_long(config, status(&opened)?.timeout_ms.unwrap_or_default())),
        _ => return Err(Failure::unexpected()),
    }
    let core = Arc::new(Core::new(site, id, opened_at, runtime.clone()));
    let link = Link::new(Lookout::new(wire.claim(), server, greeting), FIRST_CONNECTION, ());
    Ok((core, Taken { link, hints, unsettled, proven_at: opened_at }))
}

fn begin(config: &Config, id: SessionId) -> Statement {
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
