//! Over which connection looks at queues go that belong to no session.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{BoxFuture, Openable, Opener, Operation, Result};
use lockkeeper_session::{Effect, Failure, Link as _};

use crate::engine::{Engine, Greeting, Waking, Wire};
use crate::session::{Core, Finder, Link};
use crate::statement::{Row, Statement};
use crate::url::Config;

/// How often a look is tried again after a lost connection.
const LOOK_ATTEMPTS_MAX: u32 = 4;

/// The pause before a look is made again over the same connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Where looks go: over the connection of a lock's session if it has one, else over a separate one, opened at the first
/// look.
pub(crate) struct Onlooker {
    engine: Arc<dyn Engine>,
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
    Own(Arc<dyn Wire>, Greeting),
}

impl Lookout {
    pub(crate) fn wire(&self) -> &dyn Wire {
        match self {
            Self::Lent(link) => &*link.wire,
            Self::Own(wire, _) => &**wire,
        }
    }

    /// How waiters are woken over it.
    pub(crate) fn waking(&self) -> Waking {
        match self {
            Self::Lent(link) => link.waking,
            Self::Own(_, greeting) => greeting.waking,
        }
    }

    /// Ends a connection over which a look has failed in passing, so that the next one goes over another. That of a
    /// lock's session ends only if it is of no use to that either.
    fn judge(&self, failure: &Failure) {
        match self {
            Self::Own(wire, _) if failure.is_passing() => wire.shut(),
            Self::Lent(link) if failure.needs_another() => link.shut(),
            Self::Own(..) | Self::Lent(_) => {}
        }
    }
}

impl Openable for Lookout {
    fn is_open(&self) -> bool {
        !self.wire().is_over()
    }

    fn discard(self) {
        if let Self::Own(wire, _) = self {
            wire.shut();
        }
    }
}

impl Onlooker {
    pub(crate) fn new(engine: Arc<dyn Engine>, config: Arc<Config>, clock: Arc<dyn Clock>) -> Self {
        Self { engine, config, clock, opener: Opener::new(|_| {}), lent: Mutex::default() }
    }

    /// Lets looks go over a lock's session while it lives.
    pub(crate) fn lend(&self, core: &Arc<Core>) {
        *self.lent.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(core);
    }

    /// Asks, again over the next connection if one fails. What is asked may be executed more than once.
    pub(crate) async fn ask(&self, statement: &Statement, operation: Operation) -> Result<Vec<Row>> {
        self.look(operation, |lookout| lookout.wire().ask(statement.clone())).await
    }

    /// Looks, again over the next connection if one fails.
    pub(crate) async fn look<T>(
        &self,
        operation: Operation,
        look: impl Fn(Lookout) -> BoxFuture<std::result::Result<T, Failure>>,
    ) -> Result<T> {
        let deadline = self.clock.now().saturating_add(self.config.operation_timeout);
        let mut attempt = 1;
        loop {
            let lookout = self.lookout().await?;
            let answer = tokio::select! {
                biased;
                answer = look(lookout.clone()) => answer,
                () = self.clock.sleep_until(deadline) => Err(Failure::late(Effect::Unknown)),
            };
            let failure = match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            lookout.judge(&failure);
            if !failure.is_passing() || attempt >= LOOK_ATTEMPTS_MAX || self.clock.now() >= deadline {
                return Err(failure.into_core(operation, false));
            }
            attempt += 1;
            if lookout.is_open() {
                let again = self.clock.now().saturating_add(PAUSE);
                self.clock.sleep_until(again.min(deadline)).await;
            }
        }
    }

    /// Returns the connection for a look.
    async fn lookout(&self) -> Result<Lookout> {
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        // While a session has none, since it connects again or the data is not settled, one can look all the same.
        match lent.and_then(|core| core.life.present_link()) {
            Some(link) => Ok(Lookout::Lent(link)),
            None => self.opener.get(|| self.open()).await,
        }
    }

    /// Ends the connection for looks, if there is one, and opens no more.
    pub(crate) fn close(&self) {
        self.opener.shut();
        if let Some(lookout) = self.opener.take() {
            lookout.discard();
        }
    }

    fn open(&self) -> BoxFuture<Result<Lookout>> {
        let deadline = self.clock.now().saturating_add(self.config.connect_timeout);
        let mut finder = Finder::new(self.engine.clone(), self.config.clone(), self.clock.clone());
        Box::pin(async move {
            while let Some((server, attempt_ends)) = finder.next(deadline) {
                match finder.connect(server, attempt_ends).await {
                    Ok(connected) => return Ok(Lookout::Own(connected.wire, connected.greeting)),
                    Err(failure) => finder.note(failure),
                }
            }
            Err(finder.trouble().into_core(Operation::Connect, false))
        })
    }
}

impl fmt::Debug for Onlooker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Onlooker").field(&self.config).finish()
    }
}
