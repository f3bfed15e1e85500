//! Opens a session: its row in the database, and the connection over which it was made.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Error, ErrorKind, Operation, Owner, Result, Ticket};
use lockkeeper_session::{Effect, Failure, FailureKind, Server, keep};
use tokio::runtime::Handle;

use crate::engine::{Connected, Engine, Wire};
use crate::session::core::{Core, Parts};
use crate::session::driver::Driver;
use crate::session::link::Link;
use crate::session::restore::Taken;
use crate::session::settling::{Unsettled, greet};
use crate::statement::{Argument, Row, SessionId, Statement, status, word};
#[cfg(feature = "testing")]
use crate::testing::Testing;
use crate::url::Config;

/// The number of a session's first connection.
const FIRST_CONNECTION: u64 = 1;

/// One in so many sessions removes the rows of queues that were idle for long.
const SWEEPS_ONE_IN: u64 = 64;

/// How long the end of a session that is not used may take.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// What a session is opened with.
pub(crate) struct Opening {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Arc<dyn Clock>,
    #[cfg(feature = "testing")]
    pub(crate) testing: Testing,
}

/// Opens a session at the first server that serves locks. Dropping the future ends what it has begun.
pub(crate) async fn open(opening: Opening) -> Result<Arc<Core>> {
    let runtime = Handle::try_current().map_err(|_| {
        let message = "a session on a database needs a tokio runtime";
        Error::permanent(ErrorKind::InvalidConfig, Operation::Connect, message)
    })?;
    let deadline = opening.clock.now().saturating_add(opening.config.connect_timeout);
    let mut finder = opening.config.finder(&opening.clock);
    let (opening, place) = (&opening, &runtime);
    let opened = finder.round(deadline, |server, attempt_ends| async move {
        let connected = opening.engine.connect(&server, attempt_ends).await?;
        // Each attempt opens another session: the end of one that failed may come late.
        let id = Ticket::mint().map_err(|error| Failure::unreachable("no session can be named", error))?;
        attempt(opening, SessionId(id.bits()), connected, server, attempt_ends, place).await
    });
    let (core, taken) = opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))?;
    runtime.spawn(keep(Driver::new(core.clone(), opening.engine.clone(), finder, FIRST_CONNECTION + 1), taken));
    Ok(core)
}

async fn attempt(
    opening: &Opening,
    id: SessionId,
    connected: Connected,
    server: Server,
    deadline: BootInstant,
    runtime: &Handle,
) -> Result<(Arc<Core>, Taken), Failure> {
    let Opening { config, clock, .. } = opening;
    let Connected { wire, greeting, hints } = connected;
    let greeted = wire.ask(greet(&greeting.instance));
    let opened_at = clock.now();
    let opened = wire.ask(begin(config, id));
    let unclaimed = Unclaimed { wire: Some(wire), id, clock, runtime };
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
    let parts = Parts {
        config: config.clone(),
        clock: clock.clone(),
        id,
        opened_at,
        #[cfg(feature = "testing")]
        testing: opening.testing.clone(),
    };
    #[cfg(feature = "testing")]
    opening.testing.note_session(id.to_string());
    let core = Arc::new(Core::new(parts, runtime.clone()));
    let link = Arc::new(Link::new(unclaimed.claim(), FIRST_CONNECTION, server, greeting));
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

/// A session that is not taken over yet: it is ended if it never is.
struct Unclaimed<'a> {
    wire: Option<Arc<dyn Wire>>,
    id: SessionId,
    clock: &'a Arc<dyn Clock>,
    runtime: &'a Handle,
}

impl Unclaimed<'_> {
    fn claim(mut self) -> Arc<dyn Wire> {
        self.wire.take().expect("it is claimed once")
    }
}

impl Drop for Unclaimed<'_> {
    fn drop(&mut self) {
        let Some(wire) = self.wire.take() else {
            return;
        };
        let closing = wire.ask(Statement::new("close", vec![self.id.into()]));
        let clock = self.clock.clone();
        self.runtime.spawn(async move {
            // What could not be ended runs out.
            tokio::select! {
                _ = closing => {}
                () = clock.sleep_until(clock.now().saturating_add(CLOSED_WITHIN)) => {}
            }
            wire.shut();
        });
    }
}
