//! Looks at queues without joining them: over which session that goes.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lockkeeper_core::{BoxFuture, ContenderInfo, Openable, Opener, Operation, QueueName, Remnant, Result};

use crate::client::{Access, Client};
use crate::error::ClientError;
use crate::link::Link;
use crate::lock::{inspect, names, remnants};

/// Where looks go: over the session of a lock if there is one, else over a separate client, opened at the first look.
pub(super) struct Onlooker {
    access: Access,
    /// The client for looks while no lock has a session.
    opener: Opener<Client>,
    /// The session that was opened last for locks; servers limit the connections of one address.
    lent: Mutex<Weak<Link>>,
}

impl Onlooker {
    pub(super) fn new(access: Access) -> Self {
        Self { access, opener: Opener::new(|_| {}), lent: Mutex::default() }
    }

    /// Lets looks go over a lock's session while it lives.
    pub(super) fn lend(&self, link: &Arc<Link>) {
        *self.lent.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(link);
    }

    /// Opens no client any more, and closes the present one, if there is one.
    pub(super) fn close(&self) -> BoxFuture<Result<()>> {
        self.opener.shut();
        match self.opener.take().map(|client| client.close()) {
            Some(closing) => {
                Box::pin(async move { closing.await.map_err(|error| error.into_core(Operation::Close, None)) })
            }
            None => Box::pin(std::future::ready(Ok(()))),
        }
    }

    async fn link(&self) -> Result<Arc<Link>> {
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(link) = lent.filter(|link| !link.is_over() && link.bond.liveness().is_held()) {
            return Ok(link);
        }
        Ok(self.opener.get(|| self.open()).await?.link().clone())
    }

    fn open(&self) -> BoxFuture<Result<Client>> {
        let opening = self.access.open();
        Box::pin(async move { opening.await.map_err(|error| error.into_core(Operation::Inspect, None)) })
    }

    /// Shows the contenders in the queues of a lock.
    pub(super) async fn inspect(&self, lock: &QueueName) -> Result<Vec<ContenderInfo>> {
        let link = self.link().await.map_err(|error| error.at(lock))?;
        inspect::inspect(&link, &self.access.config, lock).await
    }

    /// Names the locks below the base in which a contender stands.
    pub(super) async fn queues(&self, prefix: &str) -> Result<Vec<QueueName>> {
        let link = self.link().await?;
        names::queues(&link, &self.access.config, prefix).await
    }

    /// Lists what clients have left below the base.
    pub(super) async fn remnants(&self, unused_for: Duration) -> Result<Vec<Remnant>> {
        let fail = |error: ClientError| error.into_core(Operation::Inspect, None);
        let link = self.link().await?;
        let census = remnants::count(&link, &self.access.config).await.map_err(fail)?;
        let now = remnants::server_time(&link, &self.access.config).await.map_err(fail)?;
        Ok(remnants::judge(&census, now, unused_for))
    }

    /// Removes some of it, if it is as it was seen.
    pub(super) async fn remove(&self, remnant: &Remnant) -> Result<bool> {
        remnants::remove(&self.link().await?, remnant).await
    }
}

impl Openable for Client {
    fn is_open(&self) -> bool {
        !self.link().is_over()
    }

    fn discard(self) {
        // Dropping it closes it.
    }
}
