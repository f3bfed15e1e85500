//! How a session on a database is kept: what its connections are used for, how the next one is found, and how it is
//! ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Effect, Failure, Finder, Keeping, Life, Server};

use crate::engine::{Engine, Wire};
use crate::session::core::Core;
use crate::session::link::Link;
use crate::session::others::Others;
use crate::session::restore::{Taken, restore};
use crate::session::settling::{self, Unsettled};
use crate::session::{beat, waits};
use crate::statement::{Statement, status};

/// How many pieces of a session are ended one after the other: more contenders than one process is tested with.
const PIECES_MAX: usize = 10_000;

/// Drives one session until it is over.
pub(super) struct Driver {
    core: Arc<Core>,
    engine: Arc<dyn Engine>,
    finder: Finder,
    /// The number of the next connection.
    next_connection: AtomicU64,
    /// The state of the data that was not settled when it was seen last.
    unsettled: Option<Unsettled>,
}

impl Driver {
    pub(super) const fn new(core: Arc<Core>, engine: Arc<dyn Engine>, finder: Finder, next_connection: u64) -> Self {
        let next_connection = AtomicU64::new(next_connection);
        Self { core, engine, finder, next_connection, unsettled: None }
    }

    /// When a round over all servers must have ended.
    fn deadline(&self) -> BootInstant {
        self.core.life.clock.now().saturating_add(self.core.timing.patience())
    }
}

impl Keeping for Driver {
    type Link = Link;
    type Taken = Taken;

    fn life(&self) -> &Life<Link> {
        &self.core.life
    }

    fn link(taken: &Taken) -> Arc<Link> {
        taken.link.clone()
    }

    async fn serve(&mut self, taken: Taken) -> Failure {
        let core = &self.core;
        let Taken { link, hints, unsettled, proven_at } = taken;
        self.unsettled.clone_from(&unsettled);
        let others = Others::new(core);
        tokio::select! {
            biased;
            () = link.wire.over() => Failure::broken(Effect::None),
            Err(failure) = settling::attach(core, &link, unsettled.as_ref()) => failure,
            never = waits::serve(core, &link, hints) => match never {},
            never = others.run(core, &link) => match never {},
            failure = beat::run(core, &link, &others, proven_at) => failure,
        }
    }

    fn detached(&self) {
        self.core.waits.detach();
    }

    async fn connect(&mut self) -> Result<Taken, Failure> {
        let deadline = self.deadline();
        let Self { core, engine, finder, next_connection, unsettled } = self;
        let (core, engine, next_connection, unsettled) = (&*core, &*engine, &*next_connection, unsettled.as_ref());
        let attempt = |server: Server, attempt_ends| async move {
            let connected = engine.connect(&server, attempt_ends).await?;
            let number = next_connection.fetch_add(1, Ordering::Relaxed);
            let wire = connected.wire.clone();
            let restored = restore(core, connected, number, server, unsettled).await;
            restored.inspect_err(|_| wire.shut())
        };
        finder.round(deadline, attempt).await
    }

    #[cfg(feature = "testing")]
    fn lost(&self) {
        self.core.testing.note_loss(self.core.id.to_string());
    }

    async fn end(&mut self, link: &Link) -> Result<(), Failure> {
        close(&self.core, &*link.wire).await
    }

    async fn end_anew(&mut self) -> Result<(), Failure> {
        let deadline = self.deadline();
        let Self { core, engine, finder, .. } = self;
        let (core, engine) = (&*core, &*engine);
        let attempt = |server: Server, attempt_ends| async move {
            let wire = engine.connect(&server, attempt_ends).await?.wire;
            let closed = close(core, &*wire).await;
            wire.shut();
            closed
        };
        finder.round(deadline, attempt).await
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
