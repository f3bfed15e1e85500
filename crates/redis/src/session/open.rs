//! Opens a session: its record in the service, and the connection over which it was made.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Error, ErrorKind, Operation, Owner, Result, Ticket};
use tokio::runtime::Handle;

use crate::answers::{list, text};
use crate::connection::{Connection, Failure, Finder, Flight};
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
    while let Some((server, attempt_ends)) = finder.next(deadline).await {
        let opened = Connection::open(&server, &opening.config.access, &opening.clock, attempt_ends).await;
        // Each attempt opens another session: the end of one that failed may come late, and under another name of the
        // same server.
        let id = SessionId::from_random(Ticket::mint()?.bits());
        let attempt = match opened {
            Ok(connection) => attempt(&opening, id, connection, attempt_ends, &runtime).await,
            Err(failure) => Err(failure),
        };
        match attempt {
            Ok((core, link)) => {
                runtime.spawn(Driver::new(core.clone(), finder, FIRST_CONNECTION + 1).run(link));
                return Ok(core);
            }
            Err(failure) => finder.note(failure),
        }
    }
    Err(finder.trouble().into_core(Operation::Connect, false))
}

async fn attempt(
    opening: &Opening,
    id: SessionId,
    connection: Connection,
    deadline: BootInstant,
    runtime: &Handle,
) -> Result<(Arc<Core>, Arc<Link>), Failure> {
    let Opening { config, clock, .. } = opening;
    config.check(&connection)?;
    let layout = config.layout();
    let opened_at = clock.now();
    let timing = Timing { timeout: config.session_timeout() };
    let guard_ms = match config.clock_guard {
        ClockGuard::Guarded => timing.guard().as_millis(),
        ClockGuard::Trusting => TRUSTED_GUARD_MS,
    };
    let owner = Owner::this_process().to_string();
    let arguments = [id.to_string(), timing.timeout.as_millis().to_string(), guard_ms.to_string(), owner];
    let flight = teach(&layout).script(layout.script(Script::Open), &[layout.base()], &arguments[..]);
    let asking = connection.flight_until(copied(flight, config), deadline);
    let unclaimed = Unclaimed { connection: Some(connection), id, layout: &layout, clock, runtime };
    let mut answers = asking.await?;
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

/// A session that is not taken over yet: it is ended if it never is.
struct Unclaimed<'a> {
    connection: Option<Connection>,
    id: SessionId,
    layout: &'a Layout,
    clock: &'a Arc<dyn Clock>,
    runtime: &'a Handle,
}

impl Unclaimed<'_> {
    fn claim(mut self) -> Connection {
        self.connection.take().expect("it is claimed once")
    }
}

impl Drop for Unclaimed<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        let flight =
            Flight::new().script(self.layout.script(Script::Close), &[self.layout.base()], self.id.to_string());
        let closing = connection.flight_until(flight, self.clock.now().saturating_add(CLOSED_WITHIN));
        self.runtime.spawn(async move {
            // What could not be ended runs out.
            let _ = closing.await;
            drop(connection);
        });
    }
}
