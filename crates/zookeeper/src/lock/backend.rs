//! The backend: it opens sessions, and looks at queues without joining them.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{
    AdminBackend, Backend, BoxFuture, Capabilities, ContenderInfo, Error, Exclusion, Fencing, Finding, Follower,
    Openable, Opener, Operation, QueueName, Remnant, Removal, Result, Scope, Scrutiny, ServiceUrl, Session,
    StoppedHolder,
};
use parking_lot::Mutex;

use crate::client::{Client, ClientOpener};
use crate::config::Config;
use crate::dial::Dial;
use crate::error::ClientError;
use crate::link::SessionLink;
use crate::lock::examine::examine;
use crate::lock::follow::follow;
use crate::lock::session::ZooKeeperSession;
use crate::lock::{census, inspect, remnants};

const CAPABILITIES: Capabilities =
    Capabilities::new("zookeeper", Exclusion::Timed, Fencing::Service, StoppedHolder::Expires, Removal::Told)
        .followed(lockkeeper_core::Following::Told)
        .on_condition(&[
            "the servers are one ensemble, and its tick is not greater than the one in the URL or half of the session \
             timeout",
            "a leader's ping reaches a follower within 100 ms",
            "the clock of the holder's machine goes on while the machine stands still",
            "no operator deletes the node of a holder or restores the ensemble's data while locks are held",
        ]);

/// Locks on one ZooKeeper service.
///
/// Its queues are those of Curator or kazoo (see [`Layout`](crate::Layout)), so that their locks and ours exclude one
/// another on one path.
///
/// ```
/// use lockkeeper_core::Backend;
/// use lockkeeper_recipes::Keeper;
/// use lockkeeper_zookeeper::ZooKeeperBackend;
///
/// let backend = ZooKeeperBackend::open(&"zk://h1:2181,h2:2181?session_timeout=20s".parse()?)?;
/// assert_eq!(backend.capabilities().backend, "zookeeper");
/// let keeper = Keeper::new(std::sync::Arc::new(backend));
/// # let _ = keeper;
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
pub struct ZooKeeperBackend {
    access: ClientOpener,
    onlooker: Arc<Onlooker>,
    /// The session that was begun last, opened or not.
    latest: Mutex<Weak<SessionLink>>,
}

impl ZooKeeperBackend {
    /// Takes the service that a `zk:` or `zk+tls:` URL names. No connection is opened yet.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](lockkeeper_core::ErrorKind::InvalidUrl), permanent, naming the mistake;
    /// [`InvalidConfig`](lockkeeper_core::ErrorKind::InvalidConfig), permanent, naming a file that cannot be used.
    pub fn open(url: &ServiceUrl) -> Result<Self> {
        let config = Config::from_url(url)?;
        let dial = config.dial()?;
        Ok(Self::with(config, dial, Arc::new(SystemClock)))
    }

    /// Takes a service over other connections and by another clock, which should be the keeper's too.
    pub fn with(config: Config, dial: Arc<dyn Dial>, clock: Arc<dyn Clock>) -> Self {
        let access = ClientOpener::new(config, dial, clock);
        let onlooker = Arc::new(Onlooker::new(access.clone()));
        Self { access, onlooker, latest: Mutex::default() }
    }
}

impl Backend for ZooKeeperBackend {
    fn service(&self) -> String {
        self.access.config.service.clone()
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        let (config, onlooker) = (self.access.config.clone(), self.onlooker.clone());
        let started = Client::start(&self.access);
        if let Ok(client) = &started {
            *self.latest.lock() = Arc::downgrade(client.link());
        }
        Box::pin(async move {
            let fail = |error: ClientError| error.into_core(Operation::Connect, None);
            let client = started.map_err(fail)?;
            client.until_open(&config).await.map_err(fail)?;
            onlooker.lend(client.link());
            Ok(Arc::new(ZooKeeperSession::new(client, &config)) as Arc<dyn Session>)
        })
    }

    fn admin(&self) -> &dyn AdminBackend {
        self
    }

    fn trouble(&self) -> Option<Error> {
        let latest = self.latest.lock().upgrade();
        latest?.trouble()
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.onlooker.close()
    }
}

impl AdminBackend for ZooKeeperBackend {
    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        let (onlooker, queue) = (self.onlooker.clone(), queue.clone());
        let config = self.access.config.clone();
        Box::pin(async move {
            let link = onlooker.link().await.map_err(|error| error.at(&queue))?;
            inspect::inspect(&link, &config, &queue).await
        })
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        let (onlooker, config, prefix) = (self.onlooker.clone(), self.access.config.clone(), prefix.to_owned());
        Box::pin(async move { inspect::queues(&onlooker.link().await?, &config, &prefix).await })
    }

    fn follow(&self, scope: &Scope) -> Option<Follower> {
        Some(follow(self.access.clone(), scope.clone()))
    }

    fn examine(&self, scrutiny: Scrutiny) -> BoxFuture<Result<Vec<Finding>>> {
        if scrutiny == Scrutiny::Brief {
            // A timeout that the server changed is told when the session is opened; all else takes many requests.
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        Box::pin(examine(self.access.clone()))
    }

    fn remnants(&self, unused_for: Duration) -> BoxFuture<Result<Vec<Remnant>>> {
        let (onlooker, config) = (self.onlooker.clone(), self.access.config.clone());
        Box::pin(async move {
            let fail = |error: ClientError| error.into_core(Operation::Inspect, None);
            let link = onlooker.link().await?;
            let census = census::count(&link, &config).await.map_err(fail)?;
            let now = remnants::server_time(&link, &config).await.map_err(fail)?;
            Ok(remnants::judge(&census, now, unused_for))
        })
    }

    fn remove(&self, remnant: &Remnant) -> BoxFuture<Result<bool>> {
        let (onlooker, remnant) = (self.onlooker.clone(), remnant.clone());
        Box::pin(async move { remnants::remove(&onlooker.link().await?, &remnant).await })
    }
}

impl fmt::Debug for ZooKeeperBackend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ZooKeeperBackend").field(&self.access.config).finish()
    }
}

/// Where looks go: over the session of a lock if there is one, else over a separate client, opened at the first look.
struct Onlooker {
    access: ClientOpener,
    opener: Opener<Client>,
    /// The session that was opened last for locks; servers limit the connections of one address.
    lent: Mutex<Weak<SessionLink>>,
}

impl Onlooker {
    fn new(access: ClientOpener) -> Self {
        Self { access, opener: Opener::new(|_| {}), lent: Mutex::default() }
    }

    fn lend(&self, link: &Arc<SessionLink>) {
        *self.lent.lock() = Arc::downgrade(link);
    }

    /// Opens no client any more, and closes the present one, if there is one.
    fn close(&self) -> BoxFuture<Result<()>> {
        self.opener.shut();
        match self.opener.take().map(|client| client.close()) {
            Some(closing) => {
                Box::pin(async move { closing.await.map_err(|error| error.into_core(Operation::Close, None)) })
            }
            None => Box::pin(std::future::ready(Ok(()))),
        }
    }

    async fn link(&self) -> Result<Arc<SessionLink>> {
        let lent = self.lent.lock().upgrade();
        if let Some(link) = lent.filter(|link| !link.is_over() && link.bond.liveness().is_held()) {
            return Ok(link);
        }
        Ok(self.opener.get(|| self.open()).await?.link().clone())
    }

    fn open(&self) -> BoxFuture<Result<Client>> {
        let opening = self.access.open();
        Box::pin(async move { opening.await.map_err(|error| error.into_core(Operation::Inspect, None)) })
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
