//! Over which connection looks at queues go that belong to no session.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{BoxFuture, Openable, Opener, Operation, Result};
use lockkeeper_session::{Effect, Failure, FailureKind, share};

use crate::rpc::{Connection, for_lack_of};
use crate::session::{Core, Link};
use crate::url::Config;

/// How often a look is tried again after a lost connection.
const LOOK_ATTEMPTS_MAX: u32 = 4;

/// The pause before a look is made again over the same connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Where looks go: over the connection of a lock's session if there is one, else over a separate one, opened at the
/// first look.
#[derive(Debug)]
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
}

impl Lookout {
    /// Ends a connection over which a look has failed in passing, so that the next one goes over another. That of a
    /// lock's session ends if its member is of no use; holders have no part in a look that took too long, or that came
    /// to a member with too much to do.
    fn judge(&self, failure: &Failure) {
        let is_useless = match self {
            Self::Own(_) => failure.is_passing(),
            Self::Lent(_) => failure.kind == FailureKind::Unavailable && failure.effect == Effect::Unknown,
        };
        if is_useless {
            self.connection().shut();
        }
    }
}

impl Openable for Lookout {
    fn is_open(&self) -> bool {
        !self.connection().is_over()
    }

    fn discard(self) {
        self.connection().shut();
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
            match look(lookout.clone(), deadline).await {
                Ok(seen) => return Ok(seen),
                Err(failure) => {
                    lookout.judge(&failure);
                    if !failure.is_passing() || attempt >= LOOK_ATTEMPTS_MAX || self.clock.now() >= deadline {
                        let failure = for_lack_of(failure, &self.config.layout().rights());
                        return Err(failure.into_core(Operation::Inspect, false));
                    }
                    attempt += 1;
                    if lookout.is_open() {
                        let again = self.clock.now().saturating_add(PAUSE);
                        self.clock.sleep_until(again.min(deadline)).await;
                    }
                }
            }
        }
    }

    /// Returns the connection for a look.
    async fn lookout(&self, deadline: BootInstant) -> Result<Lookout> {
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(core) = lent.filter(|core| core.life.bond().liveness().is_held()) {
            // One that connects again knows best where.
            match core.life.next_link_until(deadline).await {
                Ok(link) => return Ok(Lookout::Lent(link)),
                Err(failure) if core.life.bond().liveness().is_held() => {
                    return Err(failure.into_core(Operation::Inspect, false));
                }
                // It is over by now.
                Err(_) => {}
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
            let opened = open_from(0, &config, &clock).await;
            opened
                .map(|connection| Lookout::Own(Arc::new(connection)))
                .map_err(|failure| for_lack_of(failure, &config.layout().rights()).into_core(Operation::Inspect, false))
        })
    }
}

/// Opens a connection for looks to the first member that accepts one, beginning with this one.
pub(crate) async fn open_from(first: usize, config: &Config, clock: &Arc<dyn Clock>) -> Result<Connection, Failure> {
    let deadline = clock.now().saturating_add(config.connect_timeout);
    let count = config.servers.len();
    let mut trouble = None;
    for step in 0..count {
        let server = &config.servers[first.wrapping_add(step) % count];
        let attempt_ends = share(clock.now(), deadline, count - step);
        match Connection::open_for_looks(server, &config.access, clock, attempt_ends).await {
            Ok(connection) => return Ok(connection),
            Err(failure) => trouble = Some(failure),
        }
    }
    Err(trouble.unwrap_or_else(Failure::unexpected))
}
