//! The one task of a session that keeps it: it renews, connects again when the connection is lost, and ends the
//! session.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Liveness, LossReason};
use lockkeeper_session::{Backoff, Effect, Failure, FailureKind};

use crate::proto::LeaseRevokeRequest;
use crate::rpc::Connection;
use crate::session::core::{Core, Ending};
use crate::session::link::Link;
use crate::session::renewal;
use crate::session::restore::restore;

/// How long a session that is closed waits for what was asked before.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// Drives one session until it is over.
pub(super) struct Driver {
    core: Arc<Core>,
    /// Which server is tried next.
    next_server: usize,
    /// The number of the next connection.
    next_connection: u64,
    /// Also if this is dropped before it has run.
    _over: Over,
}

impl Driver {
    pub(super) fn new(core: Arc<Core>, next_server: usize, next_connection: u64) -> Self {
        Self { _over: Over(core.clone()), core, next_server, next_connection }
    }

    pub(super) async fn run(mut self, first: Arc<Link>) {
        let mut link = Some(first);
        while let Some(present) = link.take() {
            if self.serve(&present).await.is_break() {
                self.drain(&present).await;
                self.end(Some(&present)).await;
                return;
            }
            present.connection.shut();
            self.core.detach();
            link = self.next_link().await;
        }
        self.end(None).await;
    }

    /// Uses a connection until it fails, or the session is lost.
    async fn serve(&self, link: &Arc<Link>) -> std::ops::ControlFlow<()> {
        let core = &self.core;
        core.attach(link.clone());
        let failure = tokio::select! {
            biased;
            _ = core.bond().lost() => return std::ops::ControlFlow::Break(()),
            () = link.connection.over() => Failure::broken(Effect::None),
            () = link.watches.over() => Failure::broken(Effect::None),
            failure = renewal::run(core, link) => failure,
        };
        if failure.kind == FailureKind::SessionGone {
            core.expire();
            return std::ops::ControlFlow::Break(());
        }
        tracing::debug!(target: "lockkeeper", server = %link.connection.server(), %failure, "connection lost");
        core.set_trouble(Some(failure));
        std::ops::ControlFlow::Continue(())
    }

    /// Connects anew; `None` if the session is lost before.
    async fn next_link(&mut self) -> Option<Arc<Link>> {
        let core = self.core.clone();
        let mut backoff = Backoff::CONNECTING;
        let connecting = async {
            loop {
                for _ in 0..core.config.servers.len() {
                    match self.try_link().await {
                        Ok(link) => return Some(link),
                        Err(failure) if failure.kind == FailureKind::SessionGone => {
                            core.expire();
                            return None;
                        }
                        Err(failure) => core.set_trouble(Some(failure)),
                    }
                }
                core.clock.sleep_until(core.clock.now().saturating_add(backoff.pause())).await;
            }
        };
        tokio::select! {
            biased;
            _ = core.bond().lost() => None,
            link = connecting => link,
        }
    }

    async fn try_link(&mut self) -> Result<Arc<Link>, Failure> {
        let deadline = self.core.clock.now().saturating_add(self.core.timing.patience());
        let connection = self.connect(deadline).await?;
        let number = self.next_connection;
        self.next_connection += 1;
        restore(&self.core, connection, number, deadline).await
    }

    async fn connect(&mut self, deadline: BootInstant) -> Result<Connection, Failure> {
        let config = &self.core.config;
        let server = &config.servers[self.next_server % config.servers.len()];
        self.next_server = self.next_server.wrapping_add(1);
        Connection::open(server, &config.access, &self.core.clock, deadline).await
    }

    /// Lets what was asked before the session was closed be answered.
    async fn drain(&self, link: &Link) {
        let core = &self.core;
        if core.bond().liveness() != Liveness::Lost(LossReason::Closed) {
            return;
        }
        tokio::select! {
            biased;
            () = core.lanes.idle() => {}
            () = link.connection.over() => {}
            () = core.clock.sleep_until(core.clock.now().saturating_add(DRAIN_TIME_MAX)) => {}
        }
    }

    /// Ends the lease, and all contenders with it, until that is certain or the lease must have run out.
    async fn end(&mut self, link: Option<&Link>) {
        let core = self.core.clone();
        #[cfg(feature = "testing")]
        core.testing.note_loss();
        if core.bond().liveness() == Liveness::Lost(LossReason::Expired) {
            core.ending.send_replace(Some(Ending::Certain));
            core.detach();
            return;
        }
        let until = core.clock.now().saturating_add(core.timing.timeout);
        let mut outcome = match link {
            Some(link) => revoke(&core, &link.connection).await,
            None => Err(core.trouble().unwrap_or_else(|| Failure::broken(Effect::None))),
        };
        let mut backoff = Backoff::CONNECTING;
        while let Err(failure) = outcome {
            // A caller that waits should not wait for a server that is away; but what it asked for goes on.
            core.ending.send_replace(Some(Ending::Untold(failure.clone())));
            core.detach();
            if !failure.is_passing() || core.clock.now() >= until {
                return;
            }
            core.clock.sleep_until(core.clock.now().saturating_add(backoff.pause())).await;
            let deadline = core.clock.now().saturating_add(core.timing.patience());
            outcome = match self.connect(deadline).await {
                Ok(connection) => revoke(&core, &connection).await,
                Err(failure) => Err(failure),
            };
        }
        core.ending.send_replace(Some(Ending::Certain));
        core.detach();
    }
}

async fn revoke(core: &Core, connection: &Connection) -> Result<(), Failure> {
    let deadline = core.clock.now().saturating_add(core.timing.patience());
    match connection.call(LeaseRevokeRequest { id: core.lease }, deadline).await {
        Ok(_) => Ok(()),
        Err(failure) if failure.kind == FailureKind::SessionGone => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Says that the session is over when its task ends, also if that is because the runtime has ended.
struct Over(Arc<Core>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.bond().lose(LossReason::Closed);
        self.0.ending.send_if_modified(|ending| {
            let is_first = ending.is_none();
            if is_first {
                let message = "the runtime of the session has ended";
                *ending = Some(Ending::Untold(Failure::new(FailureKind::Broken, Effect::None, message)));
            }
            is_first
        });
        self.0.detach();
    }
}
