//! How a session on Redis is kept: what its connections are used for, how the next one is found, and how it is ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Effect, Failure, Keeping, Life, Link as _, Server};

use crate::answers::number;
use crate::connection::{Connection, Finder, Flight, until_replaced};
use crate::script::Script;
use crate::session::core::Core;
use crate::session::link::Link;
use crate::session::renewal;
use crate::session::restore::{restore, taught, teach};

/// How many pieces of a session are ended one after the other: more contenders than one process is tested with.
const PIECES_MAX: usize = 10_000;

/// Drives one session until it is over.
pub(super) struct Driver {
    pub(super) core: Arc<Core>,
    pub(super) finder: Finder,
    /// The number of the next connection.
    pub(super) next_connection: AtomicU64,
}

impl Keeping for Driver {
    type Link = Link;
    type Taken = Arc<Link>;

    fn life(&self) -> &Life<Link> {
        &self.core.life
    }

    fn link(taken: &Arc<Link>) -> Arc<Link> {
        taken.clone()
    }

    async fn serve(&mut self, link: Arc<Link>) -> Failure {
        let core = &self.core;
        core.life.attach(link.clone());
        tokio::select! {
            biased;
            () = link.connection.over() => Failure::broken(Effect::None),
            failure = renewal::until_gone(core, &link.connection) => failure,
            failure = until_replaced(&core.config, &*core.life.clock, link.server(), core.timing.interval()) => failure,
            failure = renewal::run(core, &link) => failure,
        }
    }

    async fn connect(&mut self) -> Result<Arc<Link>, Failure> {
        let deadline = self.deadline();
        let Self { core, finder, next_connection } = self;
        let (core, next_connection) = (&*core, &*next_connection);
        let attempt = |server: Server, attempt_ends| async move {
            let access = &core.config.access;
            let connection = Connection::open(&server, access, &core.life.clock, attempt_ends).await?;
            let number = next_connection.fetch_add(1, Ordering::Relaxed);
            restore(core, connection, number, attempt_ends).await
        };
        finder.round(deadline, attempt).await
    }

    #[cfg(feature = "testing")]
    fn lost(&self) {
        self.core.testing.note_loss();
    }

    async fn end(&mut self, link: &Link) -> Result<(), Failure> {
        close(&self.core, &link.connection, Flight::new).await
    }

    async fn end_anew(&mut self) -> Result<(), Failure> {
        let deadline = self.deadline();
        let Self { core, finder, .. } = self;
        let core = &*core;
        let attempt = |server: Server, attempt_ends| async move {
            let access = &core.config.access;
            let connection = Connection::open(&server, access, &core.life.clock, attempt_ends).await?;
            close(core, &connection, || teach(&core.layout)).await
        };
        finder.round(deadline, attempt).await
    }
}

impl Driver {
    /// When a round over all servers must have ended.
    fn deadline(&self) -> BootInstant {
        self.core.life.clock.now().saturating_add(self.core.timing.patience())
    }
}

/// Ends the session over a connection, piece by piece.
async fn close(core: &Core, connection: &Connection, begin: impl Fn() -> Flight) -> Result<(), Failure> {
    for _ in 0..PIECES_MAX {
        let deadline: BootInstant = core.life.clock.now().saturating_add(core.timing.patience());
        let flight = begin().script(core.layout.script(Script::Close), &[core.layout.base()], core.id.to_string());
        if number(&taught(connection.flight_until(flight, deadline).await?, "close")?)? == 0 {
            return Ok(());
        }
    }
    Err(Failure::unexpected())
}
