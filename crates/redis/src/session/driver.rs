//! How a session on Redis is kept: what its connections are used for, how the next one is found, and how it is ended.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Effect, Failure, FailureKind, Keeping, Life, Link as _};

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
    pub(super) next_connection: u64,
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
        self.finder.begin_round();
        let deadline = self.deadline();
        while let Some((server, attempt_ends)) = self.finder.next(deadline).await {
            let core = &self.core;
            let opened = Connection::open(&server, &core.config.access, &core.life.clock, attempt_ends).await;
            let restored = match opened {
                Ok(connection) => {
                    let number = self.next_connection;
                    self.next_connection += 1;
                    restore(core, connection, number, attempt_ends).await
                }
                Err(failure) => Err(failure),
            };
            match restored {
                Err(failure) if failure.kind != FailureKind::SessionGone => self.finder.note(failure),
                restored => return restored,
            }
        }
        Err(self.finder.trouble())
    }

    #[cfg(feature = "testing")]
    fn lost(&self) {
        self.core.testing.note_loss();
    }

    async fn end(&mut self, link: &Link) -> Result<(), Failure> {
        close(&self.core, &link.connection, Flight::new).await
    }

    async fn end_anew(&mut self) -> Result<(), Failure> {
        self.finder.begin_round();
        let deadline = self.deadline();
        while let Some((server, attempt_ends)) = self.finder.next(deadline).await {
            let core = &self.core;
            let closed = match Connection::open(&server, &core.config.access, &core.life.clock, attempt_ends).await {
                Ok(connection) => close(core, &connection, || teach(&core.layout)).await,
                Err(failure) => Err(failure),
            };
            match closed {
                Ok(()) => return Ok(()),
                Err(failure) => self.finder.note(failure),
            }
        }
        Err(self.finder.trouble())
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
