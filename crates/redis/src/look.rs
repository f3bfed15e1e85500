//! Over which connection looks at queues go that belong to no session.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{BoxFuture, Openable, Opener, Operation, Result};
use lockkeeper_session::{Effect, Failure, Link as _};

use crate::connection::{Connection, Finder};
use crate::session::{Core, Link, taught, teach};
use crate::url::Config;

/// How often a look is tried again after a lost connection.
const LOOK_ATTEMPTS_MAX: u32 = 4;

/// The pause before a look is made again over the same connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Where looks go: over the connection of a lock's session if there is one, else over a separate one, opened at the
/// first look.
pub(crate) struct Onlooker {
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
    opener: Opener<Lookout>,
    /// The session that was opened last for locks.
    lent: Mutex<Weak<Core>>,
}

/// A connection for looks.
#[derive(Clone, Debug)]
pub(crate) enum Lookout {
    Lent(Arc<Link>),
    Own(Arc<Connection>),
}

impl Lookout {
    pub(crate) fn connection(&self) -> &Connection {
        match self {
            Self::Lent(link) => &link.connection,
            Self::Own(connection) => connection,
        }
    }

    /// Ends a connection over which a look has failed in passing, so that the next one goes over another. That of a
    /// lock's session ends only if it is of no use to that either.
    fn judge(&self, failure: &Failure) {
        match self {
            Self::Own(connection) if failure.is_passing() => connection.shut(),
            Self::Lent(link) if failure.needs_another() => link.shut(),
            Self::Own(_) | Self::Lent(_) => {}
        }
    }
}

impl Openable for Lookout {
    fn is_open(&self) -> bool {
        !self.connection().is_over()
    }

    fn discard(self) {
        if let Self::Own(connection) = self {
            connection.shut();
        }
    }
}

impl Onlooker {
    pub(crate) fn new(config: Arc<Config>, clock: Arc<dyn Clock>) -> Self {
        Self { config, clock, opener: Opener::new(|_| {}), lent: Mutex::default() }
    }

    /// Lets looks go over a lock's session while it lives.
    pub(crate) fn lend(&self, core: &Arc<Core>) {
        *self.lent.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(core);
    }

    /// Makes a look, again over the next connection if one fails.
    pub(crate) async fn look<T>(
        self: Arc<Self>,
        mut look: impl FnMut(Lookout, BootInstant) -> BoxFuture<Result<T, Failure>> + Send,
    ) -> Result<T> {
        let deadline = self.clock.now().saturating_add(self.config.operation_timeout);
        let mut attempt = 1;
        loop {
            let lookout = self.lookout(deadline).await?;
            let failure = match look(lookout.clone(), deadline).await {
                Ok(seen) => return Ok(seen),
                Err(failure) => failure,
            };
            lookout.judge(&failure);
            if !failure.is_passing() || attempt >= LOOK_ATTEMPTS_MAX || self.clock.now() >= deadline {
                return Err(failure.into_core(Operation::Inspect, false));
            }
            attempt += 1;
            if lookout.is_open() {
                let again = self.clock.now().saturating_add(PAUSE);
                self.clock.sleep_until(again.min(deadline)).await;
            }
        }
    }

    /// Returns the connection for a look.
    async fn lookout(&self, deadline: BootInstant) -> Result<Lookout> {
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(core) = lent.filter(|core| core.life.bond().liveness().is_held()) {
            // A session that connects again knows best where.
            let link = tokio::select! {
                biased;
                link = core.life.next_link() => link,
                () = self.clock.sleep_until(deadline) => {
                    let late = core.life.trouble().unwrap_or_else(|| Failure::late(Effect::None));
                    return Err(late.into_core(Operation::Inspect, false));
                }
            };
            if let Some(link) = link {
                return Ok(Lookout::Lent(link));
            }
        }
        self.opener.get(|| self.open()).await
    }

    /// Ends the connection for looks, if there is one, and opens no more.
    pub(crate) fn close(&self) {
        self.opener.shut();
        if let Some(lookout) = self.opener.take() {
            lookout.discard();
        }
    }

    fn open(&self) -> BoxFuture<Result<Lookout>> {
        let (config, clock) = (self.config.clone(), self.clock.clone());
        Box::pin(async move {
            let deadline = clock.now().saturating_add(config.connect_timeout);
            let mut finder = Finder::new(config.clone(), clock.clone());
            while let Some((server, attempt_ends)) = finder.next(deadline).await {
                let opened = async {
                    let connection = Connection::open(&server, &config.access, &clock, attempt_ends).await?;
                    config.check(&connection)?;
                    // A server of a cluster that does not have the keys says so.
                    let mut probe = redis::cmd("HGET");
                    probe.arg(config.layout().base()).arg("tok");
                    taught(
                        connection.flight_until(teach(&config.layout()).command(probe), attempt_ends).await?,
                        "HGET",
                    )?;
                    Ok::<_, Failure>(connection)
                };
                match opened.await {
                    Ok(connection) => return Ok(Lookout::Own(Arc::new(connection))),
                    Err(failure) => finder.note(failure),
                }
            }
            Err(finder.trouble().into_core(Operation::Connect, false))
        })
    }
}

impl std::fmt::Debug for Onlooker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Onlooker").field(&self.config).finish()
    }
}
