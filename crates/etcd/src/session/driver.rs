//! How a session on etcd is kept: what its connections are used for, how the next one is found, and how it is ended.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Liveness, LossReason};
use lockkeeper_session::{Effect, Failure, FailureKind, Keeping, Life};

use crate::proto::LeaseRevokeRequest;
use crate::rpc::Connection;
use crate::session::core::Core;
use crate::session::link::Link;
use crate::session::renewal;
use crate::session::restore::restore;

/// How long a session that is closed waits for what was asked before.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// Drives one session until it is over.
pub(super) struct Driver {
    pub(super) core: Arc<Core>,
    /// Which server is tried next.
    pub(super) next_server: usize,
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
            () = link.watches.over() => Failure::broken(Effect::None),
            failure = renewal::run(core, &link) => failure,
        }
    }

    async fn connect(&mut self) -> Result<Arc<Link>, Failure> {
        let mut trouble = Failure::broken(Effect::None);
        for _ in 0..self.core.config.servers.len() {
            match self.try_link().await {
                Err(failure) if failure.kind != FailureKind::SessionGone => trouble = failure,
                taken => return taken,
            }
        }
        Err(trouble)
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
        let mut trouble = Failure::broken(Effect::None);
        for _ in 0..self.core.config.servers.len() {
            let ended = match self.open(self.deadline()).await {
                Ok(connection) => revoke(&self.core, &connection).await,
                Err(failure) => Err(failure),
            };
            match ended {
                Err(failure) => trouble = failure,
                Ok(()) => return Ok(()),
            }
        }
        Err(trouble)
    }
}

impl Driver {
    async fn try_link(&mut self) -> Result<Arc<Link>, Failure> {
        let deadline = self.deadline();
        let connection = self.open(deadline).await?;
        let number = self.next_connection;
        self.next_connection += 1;
        restore(&self.core, connection, number, deadline).await
    }

    /// When an attempt at one server must have ended.
    fn deadline(&self) -> BootInstant {
        self.core.life.clock.now().saturating_add(self.core.timing.patience())
    }

    /// Connects to the next server.
    async fn open(&mut self, deadline: BootInstant) -> Result<Connection, Failure> {
        let config = &self.core.config;
        let server = &config.servers[self.next_server % config.servers.len()];
        self.next_server = self.next_server.wrapping_add(1);
        Connection::open(server, &config.access, &self.core.life.clock, deadline).await
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
