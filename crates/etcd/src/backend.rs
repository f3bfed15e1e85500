//! The backend: it opens sessions, and looks at queues without joining them.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{
    Backend, BoxFuture, Capabilities, ContenderInfo, Error, ErrorKind, Exclusion, Fencing, Finding, Follower, Modes,
    Operation, QueueName, Remnant, Removal, Result, Scope, Scrutiny, ServiceUrl, Session, StoppedHolder,
};

use crate::examine::{Examination, examine_briefly, examine_cluster, examine_members, renew_tokens, together};
use crate::follow::Following;
use crate::layout::{Layout, Naming};
use crate::look::Onlooker;
use crate::queue::{self, EtcdSession, Onlooking};
use crate::session::{Core, Opening, open};
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
    /// The session that was opened last.
    latest: Arc<Mutex<Latest>>,
    #[cfg(feature = "testing")]
    testing: Testing,
}

/// What is known of the last attempt to reach the service.
#[derive(Debug, Default)]
struct Latest {
    session: Weak<Core>,
    trouble: Option<Error>,
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
        let onlooker = Arc::new(Onlooker::new(config.clone(), clock.clone()));
        Self {
            layout: config.layout(),
            config,
            clock,
            onlooker,
            next_server: AtomicUsize::new(std::process::id() as usize),
            latest: Arc::default(),
            #[cfg(feature = "testing")]
            testing: Testing::default(),
        }
    }

    /// Returns the means to do harm to this client.
    #[cfg(feature = "testing")]
    pub fn testing(&self) -> Testing {
        self.testing.clone()
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
        let (onlooker, latest) = (self.onlooker.clone(), self.latest.clone());
        Box::pin(async move {
            let opened = open(opening).await;
            let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
            latest.trouble = opened.as_ref().err().cloned();
            let core = opened?;
            latest.session = Arc::downgrade(&core);
            drop(latest);
            onlooker.lend(&core);
            #[cfg(feature = "testing")]
            core.testing.note_lease(core.lease);
            Ok(Arc::new(EtcdSession::new(core)) as Arc<dyn Session>)
        })
    }

    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        if let Some(why) = self.layout.refusal(queue) {
            let error = Error::permanent(ErrorKind::InvalidName, Operation::Inspect, why).at(queue);
            return Box::pin(std::future::ready(Err(error)));
        }
        let (onlooker, layout, queue) = (self.onlooker.clone(), self.layout.clone(), queue.clone());
        let name = queue.clone();
        let look = onlooker.look(move |lookout, deadline| {
            let (layout, queue) = (layout.clone(), queue.clone());
            Box::pin(async move {
                let looking = Onlooking { connection: lookout.connection(), layout: &layout, deadline };
                queue::inspect(&looking, &queue).await
            })
        });
        Box::pin(async move { look.await.map_err(|error| error.at(&name)) })
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        let (layout, prefix) = (self.layout.clone(), prefix.to_owned());
        Box::pin(self.onlooker.clone().look(move |lookout, deadline| {
            let (layout, prefix) = (layout.clone(), prefix.clone());
            Box::pin(async move {
                let looking = Onlooking { connection: lookout.connection(), layout: &layout, deadline };
                queue::names(&looking, &prefix).await
            })
        }))
    }

    fn follow(&self, scope: &Scope) -> Option<Follower> {
        let (config, clock, scope) = (self.config.clone(), self.clock.clone(), scope.clone());
        Some(Following { config, clock, scope }.begin())
    }

    fn examine(&self, scrutiny: Scrutiny) -> BoxFuture<Result<Vec<Finding>>> {
        let onlooker = self.onlooker.clone();
        if scrutiny == Scrutiny::Brief {
            return Box::pin(onlooker.look(|lookout, deadline| {
                Box::pin(async move { examine_briefly(lookout.connection(), deadline).await })
            }));
        }
        let examination = Examination { config: self.config.clone(), clock: self.clock.clone() };
        Box::pin(async move {
            let members = examine_members(&examination.config, &examination.clock).await;
            let of_cluster = onlooker.look(move |lookout, deadline| {
                let examination = examination.clone();
                Box::pin(async move { examine_cluster(&examination, lookout.connection(), deadline).await })
            });
            together(members, of_cluster.await)
        })
    }

    fn remnants(&self, _unused_for: Duration) -> BoxFuture<Result<Vec<Remnant>>> {
        let layout = self.layout.clone();
        Box::pin(self.onlooker.clone().look(move |lookout, deadline| {
            let layout = layout.clone();
            Box::pin(async move {
                let looking = Onlooking { connection: lookout.connection(), layout: &layout, deadline };
                queue::remnants(&looking).await
            })
        }))
    }

    fn remove(&self, remnant: &Remnant) -> BoxFuture<Result<bool>> {
        let remnant = remnant.clone();
        Box::pin(self.onlooker.clone().look(move |lookout, deadline| {
            let remnant = remnant.clone();
            Box::pin(async move { queue::remove(lookout.connection(), &remnant, deadline).await })
        }))
    }

    fn after_restore(&self) -> BoxFuture<Result<Finding>> {
        let (config, now) = (self.config.clone(), self.clock.unix_time());
        Box::pin(self.onlooker.clone().look(move |lookout, deadline| {
            let config = config.clone();
            Box::pin(async move {
                renew_tokens(lookout.connection(), &config, now, deadline).await?;
                Ok(Finding::note("tokens are counted anew from the clock"))
            })
        }))
    }

    fn trouble(&self) -> Option<Error> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let of_session = latest.session.upgrade().and_then(|core| core.life.trouble());
        let of_session = of_session.map(|failure| failure.into_core(Operation::Connect, false));
        of_session.or_else(|| latest.trouble.clone())
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
