//! The keeping of a session on etcd: what its connections are used for, how it is taken over, and how it is ended.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Liveness, LossReason};
use lockkeeper_session::{Effect, Failure, FailureKind, Keeping, Life, Server};

use crate::proto::LeaseRevokeRequest;
use crate::rpc::Connection;
use crate::session::core::Core;
use crate::session::link::Link;
use crate::session::renewal;
use crate::session::restore::restore;

/// How long a session that is closed waits for what was asked before.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

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

    /// Each member may take as long as an attempt does.
    fn patience(&self) -> Duration {
        let members = u32::try_from(self.0.config.servers.len()).unwrap_or(u32::MAX);
        self.0.timing.patience().saturating_mul(members)
    }

    async fn serve(&mut self, link: Arc<Link>) -> Failure {
        let core = &self.0;
        core.life.attach(link.clone());
        tokio::select! {
            biased;
            () = link.connection.over() => Failure::broken(Effect::None),
            () = link.watches.over() => Failure::broken(Effect::None),
            failure = renewal::run(core, &link) => failure,
        }
    }

    async fn take_over(&self, server: Server, number: u64, deadline: BootInstant) -> Result<Arc<Link>, Failure> {
        let core = &self.0;
        let deadline = deadline.min(core.life.clock.now().saturating_add(core.timing.patience()));
        restore(core, core.connect(&server, deadline).await?, number, deadline).await
    }

    async fn end(&mut self, link: &Link) -> Result<(), Failure> {
        match self.0.life.bond().liveness() {
            // Its contenders went with the lease.
            Liveness::Lost(LossReason::Expired) => return Ok(()),
            Liveness::Lost(LossReason::Closed) => self.drain(link).await,
            _ => {}
        }
        revoke(&self.0, &link.connection).await
    }

    async fn end_at(&self, server: Server, deadline: BootInstant) -> Result<(), Failure> {
        revoke(&self.0, &self.0.connect(&server, deadline).await?).await
    }
}

impl Driver {
    /// Lets what was asked before the session was closed be answered.
    async fn drain(&self, link: &Link) {
        let clock = &self.0.life.clock;
        tokio::select! {
            biased;
            () = self.0.lanes.idle() => {}
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
