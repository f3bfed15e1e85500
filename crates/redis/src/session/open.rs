//! Opens a session: its record in the service, and the connection over which it was made.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Error, ErrorKind, Operation, Owner, Result, Ticket};
use lockkeeper_session::{Effect, Failure, Server, keep};
use redis::Value;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::answers::{list, text};
use crate::connection::{Connection, Finder, Flight, Opened};
use crate::layout::{Layout, SessionId};
use crate::script::Script;
use crate::session::belief::Timing;
use crate::session::core::{Core, Parts};
use crate::session::driver::Driver;
use crate::session::link::Link;
use crate::session::replicas::{check, copied};
use crate::session::restore::{taught, teach};
#[cfg(feature = "testing")]
use crate::testing::Testing;
use crate::url::{ClockGuard, Config};

/// The number of a session's first connection.
const FIRST_CONNECTION: u64 = 1;

/// How far the service's clock may go on at once where the server's is trusted, in milliseconds: a century.
const TRUSTED_GUARD_MS: u128 = 100 * 365 * 24 * 60 * 60 * 1_000;

/// How long the end of a session that is not used may take.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// What a session is opened with.
pub(crate) struct Opening {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Arc<dyn Clock>,
    #[cfg(feature = "testing")]
    pub(crate) testing: Testing,
}

/// Opens a session at the first server that lets us. Dropping the future ends what it has begun.
pub(crate) async fn open(opening: Opening) -> Result<Arc<Core>> {
    let runtime = Handle::try_current().map_err(|_| {
        let message = "a session on Redis needs a tokio runtime";
        Error::permanent(ErrorKind::InvalidConfig, Operation::Connect, message)
    })?;
    let deadline = opening.clock.now().saturating_add(opening.config.connect_timeout);
    let mut finder = Finder::new(opening.config.clone(), opening.clock.clone());
    let (opening, place) = (&opening, &runtime);
    let opened = finder.round(deadline, |server, attempt_ends| async move {
        // Each attempt opens another session: the end of one that failed may come late, and under another name of the
        // same server.
        let bits = Ticket::mint().map_err(|error| Failure::unreachable("no session can be named", error))?.bits();
        attempt(opening, SessionId::from_random(bits), server, attempt_ends, place).await
    });
    let (core, link) = opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))?;
    runtime.spawn(keep(
        Driver { core: core.clone(), finder, next_connection: AtomicU64::new(FIRST_CONNECTION + 1) },
        link,
    ));
    Ok(core)
}

async fn attempt(
    opening: &Opening,
    id: SessionId,
    server: Server,
    deadline: BootInstant,
    runtime: &Handle,
) -> Result<(Arc<Core>, Arc<Link>), Failure> {
    let Opening { config, clock, .. } = opening;
    let layout = config.layout();
    let timing = Timing { timeout: config.session_timeout() };
    let guard_ms = match config.clock_guard {
        ClockGuard::Guarded => timing.guard().as_millis(),
        ClockGuard::Trusting => TRUSTED_GUARD_MS,
    };
    let owner = Owner::this_process().to_string();
    let arguments = [id.to_string(), timing.timeout.as_millis().to_string(), guard_ms.to_string(), owner];
    let flight = teach(&layout).script(layout.script(Script::Open), &[layout.base()], &arguments[..]);
    let (first, way) = (copied(flight, config), (config.clone(), clock.clone()));
    // It goes on if the caller gives up, so that the session can be ended then.
    let connecting = runtime.spawn(async move {
        let (config, clock) = way;
        Connection::open_with(first, &server, &config.access, &clock, deadline).await
    });
    let mut unclaimed = Unclaimed { way: Some(Way::Opening(connecting)), id, layout: &layout, clock, runtime };
    let (opened_at, answers) = unclaimed.opened().await?;
    config.check(unclaimed.connection())?;
    let mut answers = answers?;
    let copies = answers.split_off((layout.scripts().len() + 1).min(answers.len()));
    let mut answer = list(taught(answers, "open")?)?.into_iter();
    check(config, &mut copies.into_iter())?;
    if text(answer.next().ok_or_else(Failure::unexpected)?)? != "ok" {
        return Err(Failure::unexpected());
    }
    let parts = Parts {
        config: config.clone(),
        clock: clock.clone(),
        id,
        opened_at,
        #[cfg(feature = "testing")]
        testing: opening.testing.clone(),
    };
    let core = Arc::new(Core::new(parts, runtime.clone()));
    Ok((core, Arc::new(Link::new(unclaimed.claim(), FIRST_CONNECTION))))
}

/// How far the way to a session is.
enum Way {
    Opening(JoinHandle<Result<Opened, Failure>>),
    Open(Box<Connection>),
}

/// A session that is not taken over yet: it is ended if it never is.
struct Unclaimed<'a> {
    way: Option<Way>,
    id: SessionId,
    layout: &'a Layout,
    clock: &'a Arc<dyn Clock>,
    runtime: &'a Handle,
}

impl Unclaimed<'_> {
    /// Waits until it is open; returns when it was asked for, and the answers.
    async fn opened(&mut self) -> Result<(BootInstant, Result<Vec<Value>, Failure>), Failure> {
        let Some(Way::Opening(connecting)) = &mut self.way else {
            return Err(Failure::unexpected());
        };
        // The task ends in no other way but with the runtime.
        let opened = connecting.await.map_err(|_| Failure::broken(Effect::None));
        self.way = None;
        let Opened { connection, sent_at, answers } = opened??;
        self.way = Some(Way::Open(Box::new(connection)));
        Ok((sent_at, answers))
    }

    fn connection(&self) -> &Connection {
        match &self.way {
            Some(Way::Open(connection)) => connection,
            _ => unreachable!("it is asked for when it is open, and before it is claimed"),
        }
    }

    fn claim(mut self) -> Connection {
        match self.way.take() {
            Some(Way::Open(connection)) => *connection,
            _ => unreachable!("it is claimed once, when it is open"),
        }
    }
}

impl Drop for Unclaimed<'_> {
    fn drop(&mut self) {
        let Some(way) = self.way.take() else {
            return;
        };
        let flight =
            Flight::new().script(self.layout.script(Script::Close), &[self.layout.base()], self.id.to_string());
        let clock = self.clock.clone();
        self.runtime.spawn(async move {
            let connection = match way {
                Way::Open(connection) => *connection,
                Way::Opening(connecting) => match connecting.await {
                    Ok(Ok(opened)) => opened.connection,
                    // There is no way to the session, if there is one. It runs out.
                    _ => return,
                },
            };
            // What could not be ended runs out.
            let _ = connection.flight_until(flight, clock.now().saturating_add(CLOSED_WITHIN)).await;
        });
    }
}
