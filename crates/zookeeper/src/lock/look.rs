//! Looks at queues without joining them: over which session that goes.

use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{ContenderInfo, Operation, QueueName, Result};
use tokio::sync::Mutex;

use crate::client::Client;
use crate::config::Config;
use crate::dial::Dial;
use crate::error::ClientError;
use crate::hosts::Trail;
use crate::link::Link;
use crate::lock::{inspect, names};

/// Where looks go: over the session of a lock if there is one, else over a separate client, opened at the first look.
pub(super) struct Onlooker {
    config: Arc<Config>,
    dial: Arc<dyn Dial>,
    clock: Arc<dyn Clock>,
    trail: Arc<Trail>,
    client: Mutex<Option<Client>>,
    /// The session that was opened last for locks; servers limit the connections of one address.
    lent: StdMutex<Weak<Link>>,
}

impl Onlooker {
    pub(super) fn new(config: Arc<Config>, dial: Arc<dyn Dial>, clock: Arc<dyn Clock>, trail: Arc<Trail>) -> Self {
        Self { config, dial, clock, trail, client: Mutex::default(), lent: StdMutex::default() }
    }

    /// Lets looks go over a lock's session while it lives.
    pub(super) fn lend(&self, link: &Arc<Link>) {
        *self.lent.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(link);
    }

    /// Closes the separate client, if there is one.
    pub(super) async fn close(&self) -> Result<()> {
        match self.client.lock().await.take() {
            Some(client) => client.close().await.map_err(|error| error.into_core(Operation::Close, None)),
            None => Ok(()),
        }
    }

    async fn link(&self) -> Result<Arc<Link>, ClientError> {
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(link) = lent.filter(|link| !link.is_over() && link.bond().liveness().is_held()) {
            return Ok(link);
        }
        let mut slot = self.client.lock().await;
        if let Some(client) = slot.as_ref().filter(|client| !client.link().is_over()) {
            return Ok(client.link().clone());
        }
        let client = Client::start(&self.config, self.dial.clone(), self.clock.clone(), self.trail.clone())?;
        client.until_open(&self.config).await?;
        let link = client.link().clone();
        *slot = Some(client);
        Ok(link)
    }

    /// Shows the contenders in the queues of a lock.
    pub(super) async fn inspect(&self, lock: &QueueName) -> Result<Vec<ContenderInfo>> {
        let link = self.link().await.map_err(|error| error.into_core(Operation::Inspect, None).at(lock))?;
        inspect::inspect(&link, &self.config, lock).await
    }

    /// Names the locks below the base in which a contender stands.
    pub(super) async fn queues(&self, prefix: &str) -> Result<Vec<QueueName>> {
        let link = self.link().await.map_err(|error| error.into_core(Operation::Inspect, None))?;
        names::queues(&link, &self.config, prefix).await
    }
}

impl fmt::Debug for Onlooker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Onlooker").field(&self.config).finish()
    }
}
