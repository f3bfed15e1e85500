//! The backend: it opens sessions, and looks at queues without joining them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{
    AdminBackend, Backend, BoxFuture, Capabilities, ContenderInfo, Error, ErrorKind, Exclusion, Fencing, Finding,
    Follower, Modes, Operation, QueueName, Remnant, Removal, Result, Scope, Scrutiny, ServiceUrl, Session,
    StoppedHolder,
};
use lockkeeper_session::{follow, refuse};

use crate::examine::{examine_briefly, examine_cluster, examine_members, renew_tokens, together};
use crate::follow::Following;
use crate::layout::KeyNaming;
use crate::look::{self, Onlooker, onlooker};
use crate::queue;
use crate::session::open;
use crate::url::{Config, EtcdSite};

const CAPABILITIES: Capabilities =
    Capabilities::new("etcd", Exclusion::Timed, Fencing::Clock, StoppedHolder::Expires, Removal::Told)
        .followed(lockkeeper_core::Following::Told)
        .on_condition(CONDITIONS);

/// The promises for queues that are shared with other clients: they have mutexes and elections alone, and know their
/// contenders by etcd's revisions, which begin anew in a service that lost its data.
const SHARED_CAPABILITIES: Capabilities =
    Capabilities::new("etcd", Exclusion::Timed, Fencing::Service, StoppedHolder::Expires, Removal::Told)
        .followed(lockkeeper_core::Following::Told)
        .carrying(Modes::MUTEX.with(Modes::ELECTION))
        .on_condition(CONDITIONS);

/// Conditions of the exclusion.
const CONDITIONS: &[&str] = &[
    "the members run etcd 3.4.31, 3.5.13 or later: older ones can revoke a lease that was renewed",
    "the clock of the holder's machine goes on while the machine stands still",
    "no operator deletes the key of a holder, revokes its lease or restores a snapshot while locks are held",
];

/// Locks on one etcd service.
///
/// ```
/// use lockkeeper_core::Backend;
/// use lockkeeper_etcd::EtcdBackend;
/// use lockkeeper_recipes::Keeper;
///
/// let backend = EtcdBackend::open(&"etcd://h1:2379,h2:2379?session_timeout=20s".parse()?)?;
/// assert_eq!(backend.capabilities().backend, "etcd");
/// let keeper = Keeper::new(std::sync::Arc::new(backend));
/// # let _ = keeper;
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
#[derive(Debug)]
pub struct EtcdBackend {
    site: EtcdSite,
    onlooker: Arc<Onlooker>,
    next_server: AtomicUsize,
}

impl EtcdBackend {
    /// Takes the service that an `etcd:` URL names. No connection is opened yet.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](lockkeeper_core::ErrorKind::InvalidUrl), permanent, naming what is wrong.
    pub fn open(url: &ServiceUrl) -> Result<Self> {
        Ok(Self::with(Config::from_url(url)?, Arc::new(SystemClock)))
    }

    /// Takes a service by another clock, which should be the keeper's too.
    pub fn with(config: Config, clock: Arc<dyn Clock>) -> Self {
        let layout = config.layout();
        let site = EtcdSite::new(config, layout, clock);
        let next_server = AtomicUsize::new(std::process::id() as usize);
        Self { onlooker: Arc::new(onlooker(&site)), site, next_server }
    }

    /// Returns the means to do harm to this client.
    #[cfg(feature = "testing")]
    pub fn testing(&self) -> lockkeeper_session::ClientTesting {
        self.site.testing.clone()
    }
}

impl Backend for EtcdBackend {
    fn service(&self) -> String {
        self.site.config.service.clone()
    }

    fn capabilities(&self) -> &Capabilities {
        match self.site.config.naming {
            KeyNaming::Ours => &CAPABILITIES,
            KeyNaming::Etcdctl => &SHARED_CAPABILITIES,
        }
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        let (site, onlooker) = (self.site.clone(), self.onlooker.clone());
        let first_server = self.next_server.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let opened = open(site, first_server).await;
            onlooker.note(opened.as_ref().map(|core| &core.life));
            Ok(Arc::new(queue::begin(opened?)) as Arc<dyn Session>)
        })
    }

    fn admin(&self) -> &dyn AdminBackend {
        self
    }

    fn trouble(&self) -> Option<Error> {
        self.onlooker.trouble()
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.onlooker.close()
    }
}

impl AdminBackend for EtcdBackend {
    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        if let Some(why) = self.site.layout.refusal(queue) {
            return refuse(Error::permanent(ErrorKind::InvalidName, Operation::Inspect, why).at(queue));
        }
        let name = queue.clone();
        let looking = self.onlooker.look_at(queue.clone(), |looking, name| Box::pin(look::inspect(looking, name)));
        Box::pin(async move { looking.await.map_err(|error| error.at(&name)) })
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        self.onlooker.look_at(prefix.to_owned(), |looking, prefix| Box::pin(look::names(looking, prefix)))
    }

    fn follow(&self, scope: &Scope) -> Option<Follower> {
        Some(follow(Following::new(self.site.clone(), scope.clone())))
    }

    fn examine(&self, scrutiny: Scrutiny) -> BoxFuture<Result<Vec<Finding>>> {
        if scrutiny == Scrutiny::Brief {
            return self.onlooker.look_at((), |looking, ()| Box::pin(examine_briefly(looking)));
        }
        let of_cluster =
            self.onlooker.look_at(self.site.clone(), |looking, site| Box::pin(examine_cluster(looking, site)));
        let site = self.site.clone();
        Box::pin(async move { together(examine_members(&site.config, &site.clock).await, of_cluster.await) })
    }

    fn remnants(&self, _unused_for: Duration) -> BoxFuture<Result<Vec<Remnant>>> {
        self.onlooker.look_at((), |looking, ()| Box::pin(look::remnants(looking)))
    }

    fn remove(&self, remnant: &Remnant) -> BoxFuture<Result<bool>> {
        self.onlooker.look_at(remnant.clone(), |looking, remnant| Box::pin(look::remove(looking, remnant)))
    }

    fn after_restore(&self) -> BoxFuture<Result<Finding>> {
        self.onlooker.look_at(self.site.clone(), |looking, site| Box::pin(renew_tokens(looking, site)))
    }
}
