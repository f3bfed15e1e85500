//! The keeping of a session on Redis: what its connections are used for, how it is taken over, and how it is ended.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Effect, Failure, Keeping, Life, Lookable as _, Server};

use crate::answers::number;
use crate::connection::{Batch, Connection, until_replaced};
use crate::script::Script;
use crate::session::core::Core;
use crate::session::restore::{restore, taught, teach};
use crate::session::{Link, renewal};

/// How many pieces of a session are ended one after the other: more contenders than one process is tested with.
const PIECES_MAX: usize = 10_000;

/// Drives one session until it is over.
pub(super) struct Driver(pub(super) Arc<Core>);

impl Keeping for Driver {
    type Link = Link;
    type Taken = Arc<Link>;

    fn life(&self) -> &Life<Link> {
        &self.0.life
    }

    fn link(taken: &Arc<Link>) -> Arc<Link> {
        taken.clone()
    }

    fn patience(&self) -> Duration {
        self.0.timing.patience()
    }

    async fn serve(&mut self, link: Arc<Link>) -> Failure {
        let core = &self.0;
        let (clock, server) = (&core.life.clock, link.connection.server());
        core.life.attach(link.clone());
        tokio::select! {
            biased;
            () = link.connection.over() => Failure::broken(Effect::None),
            failure = renewal::until_gone(core, &link.connection) => failure,
            failure = until_replaced(&core.config, clock, server, core.timing.interval()) => failure,
            failure = renewal::run(core, &link) => failure,
        }
    }

    async fn take_over(&self, server: Server, number: u64, deadline: BootInstant) -> Result<Arc<Link>, Failure> {
        restore(&self.0, self.0.connect(&server, deadline).await?, number, deadline).await
    }

    async fn end(&mut self, link: &Link) -> Result<(), Failure> {
        close(&self.0, &link.connection, Batch::new).await
    }

    async fn end_at(&self, server: Server, deadline: BootInstant) -> Result<(), Failure> {
        let connection = self.0.connect(&server, deadline).await?;
        close(&self.0, &connection, || teach(&self.0.layout)).await
    }
}

/// Ends the session over a connection, piece by piece.
async fn close(core: &Core, connection: &Connection, begin: impl Fn() -> Batch) -> Result<(), Failure> {
    for _ in 0..PIECES_MAX {
        let deadline = core.life.clock.now().saturating_add(core.timing.patience());
        let batch = begin().script(core.layout.script(Script::Close), &[core.layout.base()], core.id.to_string());
        if number(&taught(connection.send_until(batch, deadline).await?, "close")?)? == 0 {
            return Ok(());
        }
    }
    Err(Failure::unexpected())
}
