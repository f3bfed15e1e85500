//! The waist's methods: those of the backend, which opens sessions, and looks at queues without joining them; and those
//! of a session.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{
    AdminBackend, Backend, BoxFuture, Capabilities, ConnectionNumber, ContenderId, ContenderInfo, Departure,
    ENTRIES_MAX, Enqueued, Entry, Error, ErrorKind, Exclusion, Expected, Extent, Fencing, Finding, Follower, Freshness,
    Openable, Opener, Operation, QueueName, QueueView, Remnant, Removal, Result, Scope, Scrutiny, ServiceUrl, Session,
    SessionBond, StoppedHolder, Ticket, Value, ValueVersion, Values, Withdrawal,
};
use parking_lot::Mutex;

use crate::client::{Client, ClientOpener};
use crate::config::Config;
use crate::dial::Dial;
use crate::error::ClientError;
use crate::link::SessionLink;
use crate::lock::examine::examine;
use crate::lock::follow::follow;
use crate::lock::prover::Prover;
use crate::lock::session_core::{SessionCore, begun};
use crate::lock::shared_list::ListFreshness;
use crate::lock::{census, inspect, join, remnants, request, value, waits, withdraw};

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

/// A session as locks see it. What its parts share is in `session_core`; each of the larger operations has a file.
struct ZooKeeperSession {
    /// Keeps the session alive.
    client: Client,
    inner: Arc<SessionCore>,
}

impl ZooKeeperSession {
    /// Takes a session for locks, and starts what proves it alive.
    fn new(client: Client, config: &Config) -> Self {
        let inner = Arc::new(SessionCore::new(client.link().clone(), config));
        client.link().bond.set_timeout(client.link().timeouts());
        client.link().adopt(Box::pin(Prover::new(inner.clone()).run()));
        Self { client, inner }
    }
}

impl Session for ZooKeeperSession {
    fn bond(&self) -> &SessionBond {
        &self.inner.link.bond
    }

    /// After a departure without a sync: departures are told in the order in which they happened, no contender comes
    /// ahead of us, and a list that is too old shows a contender whose departure is told next.
    fn view(&self, queue: &QueueName, freshness: Freshness, _extent: Extent<'_>) -> BoxFuture<Result<QueueView>> {
        let freshness = match freshness {
            Freshness::Latest => ListFreshness::Synced,
            Freshness::AfterDeparture => ListFreshness::Behind,
        };
        let (inner, queue) = (self.inner.clone(), queue.clone());
        let asked = inner.path_of(&queue).map(|path| (inner.send_list(&path, queue.part(), freshness), path));
        begun(asked.map(|(list, path)| async move {
            let listing = inner.look(&path, queue.part(), list).await;
            let listing = listing.map_err(|error| inner.fail(error, Operation::View, &queue))?;
            inner.outlived_view(&queue, &path, &listing, Operation::View).await
        }))
    }

    fn enqueue(&self, queue: &QueueName, entries: Vec<Entry>) -> BoxFuture<Result<Vec<Enqueued>>> {
        if entries.is_empty() {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        if entries.len() > ENTRIES_MAX {
            let message = format!("at most {ENTRIES_MAX} entries per call");
            let error = Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(queue);
            return Box::pin(std::future::ready(Err(error)));
        }
        begun(join::QueueJoin::begin(self.inner.clone(), queue, &entries).map(|(join, sent)| join.finish(sent)))
    }

    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: ConnectionNumber,
    ) -> BoxFuture<Result<Departure>> {
        begun(waits::DepartureWait::begin(self.inner.clone(), queue, mine, ahead, seen))
    }

    fn hears_of(&self, contender: &ContenderId) -> bool {
        self.inner.own_place(contender).is_some()
    }

    fn changed(&self, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>> {
        begun(waits::queue_changed(self.inner.clone(), queue, seen))
    }

    fn request(
        &self,
        queue: &QueueName,
        contender: &ContenderId,
        request: lockkeeper_core::Request,
    ) -> BoxFuture<Result<bool>> {
        begun(request::begin(&self.inner, queue, contender, request))
    }

    fn values(&self) -> &dyn Values {
        self
    }

    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        withdraw::begin(&self.inner, queue, ticket)
    }

    fn keep(&self, queue: &QueueName, ticket: Ticket) {
        let was_standing = self.inner.places().keep(queue, ticket);
        if was_standing {
            self.inner.link.remove_dependent();
        }
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let closing = self.client.close();
        Box::pin(async move { closing.await.map_err(|error| error.into_core(Operation::Close, None)) })
    }
}

impl Values for ZooKeeperSession {
    fn get(&self, queue: &QueueName) -> BoxFuture<Result<Option<Value>>> {
        begun(value::read(&self.inner, queue))
    }

    fn set(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<Result<Option<ValueVersion>>> {
        begun(value::write(&self.inner, queue, expected, value))
    }

    fn until_changed(&self, queue: &QueueName, seen: Option<ValueVersion>) -> BoxFuture<Result<Option<Value>>> {
        begun(waits::value_changed(self.inner.clone(), queue, seen))
    }
}

impl fmt::Debug for ZooKeeperSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ZooKeeperSession").field(&self.client).finish()
    }
}
