//! The lock recipe of the crate `zookeeper-client`, under Curator's names. It gives a lock back by drop alone: the
//! caller never waits for that, and its next request on the session goes out behind it.

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, LockOptions, LockPrefix};

use crate::Outcome;

const SESSION_TIMEOUT: Duration = Duration::from_secs(20);
const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

/// A session with its lock.
#[derive(Debug)]
pub(crate) struct ClientLock {
    client: Client,
    path: &'static str,
}

impl ClientLock {
    pub(crate) async fn open(address: &str, path: &'static str) -> Outcome<Self> {
        let client = Client::connector().with_session_timeout(SESSION_TIMEOUT).connect(address).await?;
        Ok(Self { client, path })
    }

    pub(crate) async fn lock_and_release(&self) -> Outcome<()> {
        let prefix = LockPrefix::new_curator(self.path, "lock-")?;
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(PERSISTENT)?;
        drop(self.client.lock(prefix, b"", options).await?);
        Ok(())
    }
}
