//! The keeping of a session on a database: what its connections are used for, how it is taken over, and how it is
//! ended.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Effect, Failure, Keeping, Life, Server};

use crate::engine::{Engine, Intent, Wire};
use crate::session::core::Core;
use crate::session::others::Others;
use crate::session::restore::{Taken, restore};
use crate::session::settling::{self, Unsettled};
use crate::session::{Link, beat, waits};
use crate::statement::{Statement, status};

/// How many pieces of a session are ended one after the other: more contenders than one process is tested with.
const PIECES_MAX: usize = 10_000;

/// Drives one session until it is over.
pub(super) struct Driver {
    core: Arc<Core>,
    engine: Arc<dyn Engine>,
    /// The state of the data that was not settled when it was seen last.
    unsettled: Option<Unsettled>,
}

impl Driver {
    pub(super) const fn new(core: Arc<Core>, engine: Arc<dyn Engine>) -> Self {
        Self { core, engine, unsettled: None }
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

    fn patience(&self) -> Duration {
        self.core.timing.patience()
    }

    async fn serve(&mut self, taken: Taken) -> Failure {
        let core = &self.core;
        let Taken { link, hints, unsettled, proven_at } = taken;
        self.unsettled.clone_from(&unsettled);
        let others = Others::new(core);
        tokio::select! {
            biased;
            () = link.connection.wire.over() => Failure::broken(Effect::None),
            Err(failure) = settling::attach(core, &link, unsettled.as_ref()) => failure,
            never = waits::serve(core, &link, hints) => match never {},
            never = others.run(core, &link) => match never {},
            failure = beat::run(core, &link, &others, proven_at) => failure,
        }
    }

    fn detached(&self) {
        self.core.waits.detach();
    }

    async fn take_over(&self, server: Server, number: u64, deadline: BootInstant) -> Result<Taken, Failure> {
        let connected = self.engine.connect(&server, deadline, Intent::Serve).await?;
        let wire = connected.wire.clone();
        let restored = restore(&self.core, connected, number, server, self.unsettled.as_ref()).await;
        restored.inspect_err(|_| wire.shut())
    }

    async fn end(&mut self, link: &Link) -> Result<(), Failure> {
        close(&self.core, &*link.connection.wire).await
    }

    async fn end_at(&self, server: Server, deadline: BootInstant) -> Result<(), Failure> {
        let wire = self.engine.connect(&server, deadline, Intent::Serve).await?.wire;
        let closed = close(&self.core, &*wire).await;
        wire.shut();
        closed
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
