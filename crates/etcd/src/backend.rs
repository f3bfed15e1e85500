//! The backend: it opens sessions, and looks at queues without joining them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_core::{
    Backend, BoxFuture, Capabilities, ContenderInfo, Error, ErrorKind, Exclusion, Fencing, Finding, Follower, Modes,
    Operation, QueueName, Remnant, Removal, Result, Scope, Scrutiny, ServiceUrl, Session, StoppedHolder,
};
use lockkeeper_session::Failure;

use crate::examine::{Examination, examine_briefly, examine_cluster, examine_members, renew_tokens, together};
use crate::follow::Following;
use crate::layout::{Layout, Naming};
use crate::look::{self, Onlooker, onlooker};
use crate::queue::{self, Onlooking};
use crate::rpc::Connection;
use crate::session::{Opening, open};
#[cfg(feature = "testing")]
use crate::testing::Testing;
use crate::url::Config;

const CAPABILITIES: Capabilities =
    Capabilities::new("etcd", Exclusion::Timed, Fencing::Clock, StoppedHolder::Expires, Removal::Told)
        .followed(lockkeeper_core::Following::Told)
        .on_condition(CONDITIONS);

/// What is promised of queues that are shared with other clients: they have mutexes and elections alone, and know their
/// contenders by etcd's revisions, which begin anew in a service that lost its data.
const SHARED_CAPABILITIES: Capabilities =
    Capabilities::new("etcd", Exclusion::Timed, Fencing::Service, StoppedHolder::Expires, Removal::Told)
        .followed(lockkeeper_core::Following::Told)
        .carrying(Modes::MUTEX.with(Modes::ELECTION))
        .on_condition(CONDITIONS);

/// What the exclusion rests on.
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
pub struct EtcdBackend {
    config: Arc<Config>,
    layout: Layout,
    clock: Arc<dyn Clock>,
    onlooker: Arc<Onlooker>,
    /// The server that the next session tries first.
    next_server: AtomicUsize,
    #[cfg(feature = "testing")]
    testing: Testing,
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
        let config = Arc::new(config);
        let onlooker = Arc::new(onlooker(config.clone(), clock.clone()));
        Self {
            layout: config.layout(),
            config,
            clock,
            onlooker,
            next_server: AtomicUsize::new(std::process::id() as usize),
            #[cfg(feature = "testing")]
            testing: Testing::default(),
        }
    }

    /// Returns the means to do harm to this client.
    #[cfg(feature = "testing")]
    pub fn testing(&self) -> Testing {
        self.testing.clone()
    }

    /// Looks over a connection of no session, or of the last one.
    fn look<T: Send + 'static>(
        &self,
        look: impl FnMut(Arc<Connection>, BootInstant) -> BoxFuture<Result<T, Failure>> + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        Box::pin(look::look(self.onlooker.clone(), self.config.clone(), look))
    }
}

impl Backend for EtcdBackend {
    fn service(&self) -> String {
        self.config.service.clone()
    }

    fn capabilities(&self) -> &Capabilities {
        match self.config.naming {
            Naming::Ours => &CAPABILITIES,
            Naming::Etcdctl => &SHARED_CAPABILITIES,
        }
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        let opening = Opening {
            config: self.config.clone(),
            clock: self.clock.clone(),
            first_server: self.next_server.fetch_add(1, Ordering::Relaxed),
            #[cfg(feature = "testing")]
            testing: self.testing.clone(),
        };
        let onlooker = self.onlooker.clone();
        Box::pin(async move {
            let opened = open(opening).await;
            onlooker.note(opened.as_ref().map(|core| &core.life));
            let core = opened?;
            #[cfg(feature = "testing")]
            core.testing.note_lease(core.lease);
            Ok(Arc::new(queue::begin(core)) as Arc<dyn Session>)
        })
    }

    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        if let Some(why) = self.layout.refusal(queue) {
            let error = Error::permanent(ErrorKind::InvalidName, Operation::Inspect, why).at(queue);
            return Box::pin(std::future::ready(Err(error)));
        }
        let (layout, queue) = (self.layout.clone(), queue.clone());
        let name = queue.clone();
        let look = self.look(move |connection, deadline| {
            let (layout, queue) = (layout.clone(), queue.clone());
            Box::pin(async move {
                let looking = Onlooking { connection: &connection, layout: &layout, deadline };
                queue::inspect(&looking, &queue).await
            })
        });
        Box::pin(async move { look.await.map_err(|error| error.at(&name)) })
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        let (layout, prefix) = (self.layout.clone(), prefix.to_owned());
        self.look(move |connection, deadline| {
            let (layout, prefix) = (layout.clone(), prefix.clone());
            Box::pin(async move {
                let looking = Onlooking { connection: &connection, layout: &layout, deadline };
                queue::names(&looking, &prefix).await
            })
        })
    }

    fn follow(&self, scope: &Scope) -> Option<Follower> {
        let (config, clock, scope) = (self.config.clone(), self.clock.clone(), scope.clone());
        Some(Following { config, clock, scope }.begin())
    }

    fn examine(&self, scrutiny: Scrutiny) -> BoxFuture<Result<Vec<Finding>>> {
        if scrutiny == Scrutiny::Brief {
            return self
                .look(|connection, deadline| Box::pin(async move { examine_briefly(&connection, deadline).await }));
        }
        let examination = Examination { config: self.config.clone(), clock: self.clock.clone() };
        let (config, clock) = (self.config.clone(), self.clock.clone());
        let of_cluster = self.look(move |connection, deadline| {
            let examination = examination.clone();
            Box::pin(async move { examine_cluster(&examination, &connection, deadline).await })
        });
        Box::pin(async move {
            let members = examine_members(&config, &clock).await;
            together(members, of_cluster.await)
        })
    }

    fn remnants(&self, _unused_for: Duration) -> BoxFuture<Result<Vec<Remnant>>> {
        let layout = self.layout.clone();
        self.look(move |connection, deadline| {
            let layout = layout.clone();
            Box::pin(async move {
                let looking = Onlooking { connection: &connection, layout: &layout, deadline };
                queue::remnants(&looking).await
            })
        })
    }

    fn remove(&self, remnant: &Remnant) -> BoxFuture<Result<bool>> {
        let remnant = remnant.clone();
        self.look(move |connection, deadline| {
            let remnant = remnant.clone();
            Box::pin(async move { queue::remove(&connection, &remnant, deadline).await })
        })
    }

    fn after_restore(&self) -> BoxFuture<Result<Finding>> {
        let (config, now) = (self.config.clone(), self.clock.unix_time());
        self.look(move |connection, deadline| {
            let config = config.clone();
            Box::pin(async move {
                renew_tokens(&connection, &config, now, deadline).await?;
                Ok(Finding::note("tokens are counted anew from the clock"))
            })
        })
    }

    fn trouble(&self) -> Option<Error> {
        self.onlooker.trouble()
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.onlooker.close();
        Box::pin(std::future::ready(Ok(())))
    }
}

impl fmt::Debug for EtcdBackend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("EtcdBackend").field(&self.config).finish()
    }
}
