//! How a session on etcd is kept: what its connections are used for, how the next one is found, and how it is ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Liveness, LossReason};
use lockkeeper_session::{Effect, Failure, FailureKind, Finder, Keeping, Life, Server};

use crate::proto::LeaseRevokeRequest;
use crate::rpc::{Connection, for_lack_of};
use crate::session::core::Core;
use crate::session::link::Link;
use crate::session::renewal;
use crate::session::restore::restore;

/// How long a session that is closed waits for what was asked before.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

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
            () = link.watches.over() => Failure::broken(Effect::None),
            failure = renewal::run(core, &link) => failure,
        }
    }

    async fn connect(&mut self) -> Result<Arc<Link>, Failure> {
        let (deadline, patience) = (self.deadline(), self.core.timing.patience());
        let Self { core, finder, next_connection } = self;
        let (core, next_connection) = (&*core, &*next_connection);
        let attempt = |server: Server, attempt_ends: BootInstant| async move {
            let attempt_ends = attempt_ends.min(core.life.clock.now().saturating_add(patience));
            let connection = Connection::open(&server, &core.config.access, &core.life.clock, attempt_ends).await?;
            let number = next_connection.fetch_add(1, Ordering::Relaxed);
            restore(core, connection, number, attempt_ends).await
        };
        finder.round(deadline, attempt).await.map_err(|failure| for_lack_of(failure, &core.layout.rights()))
    }

    #[cfg(feature = "testing")]
    fn lost(&self) {
        self.core.testing.note_loss();
    }

    async fn end(&mut self, link: &Link) -> Result<(), Failure> {
        match self.core.life.bond().liveness() {
            // Its contenders went with the lease.
            Liveness::Lost(LossReason::Expired) => return Ok(()),
            Liveness::Lost(LossReason::Closed) => self.drain(link).await,
            _ => {}
        }
        revoke(&self.core, &link.connection).await
    }

    async fn end_anew(&mut self) -> Result<(), Failure> {
        let deadline = self.deadline();
        let Self { core, finder, .. } = self;
        let core = &*core;
        let attempt = |server: Server, attempt_ends| async move {
            let access = &core.config.access;
            let connection = Connection::open(&server, access, &core.life.clock, attempt_ends).await?;
            revoke(core, &connection).await
        };
        finder.round(deadline, attempt).await
    }
}

impl Driver {
    /// When a round over all members must have ended: each may take as long as an attempt does.
    fn deadline(&self) -> BootInstant {
        let members = u32::try_from(self.core.config.servers.len()).unwrap_or(u32::MAX);
        self.core.life.clock.now().saturating_add(self.core.timing.patience().saturating_mul(members))
    }

    /// Lets what was asked before the session was closed be answered.
    async fn drain(&self, link: &Link) {
        let clock = &self.core.life.clock;
        tokio::select! {
            biased;
            () = self.core.lanes.idle() => {}
            () = link.connection.over() => {}
            () = clock.sleep_until(clock.now().saturating_add(DRAIN_TIME_MAX)) => {}
        }
    }
}

async fn revoke(core: &Core, connection: &Connection) -> Result<(), Failure> {
    let deadline = core.life.clock.now().saturating_add(core.timing.patience());
    match connection.call(LeaseRevokeRequest { id: core.lease }, deadline).await {
        Ok(_) => Ok(()),
        Err(failure) if failure.kind == FailureKind::SessionGone => Ok(()),
        Err(failure) => Err(failure),
    }
}
