//! The backend: it opens sessions, and looks at queues without joining them.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_core::{
    Backend, BoxFuture, Capabilities, ContenderInfo, Error, ErrorKind, Exclusion, Fencing, Finding, Follower, Modes,
    Operation, QueueName, Removal, Result, Scope, Scrutiny, ServiceUrl, Session, StoppedHolder,
};
use lockkeeper_session::Failure;

use crate::connection::Connection;
use crate::examine::{Examination, examine_briefly, examine_wholly};
use crate::follow::Following;
use crate::layout::Layout;
use crate::look::{Onlooker, onlooker};
use crate::queue::{self, Onlooking};
use crate::session::{Opening, open};
#[cfg(feature = "testing")]
use crate::testing::Testing;
use crate::url::{Config, Naming};

const CAPABILITIES: Capabilities =
    Capabilities::new("redis", Exclusion::BestEffort, Fencing::Clock, StoppedHolder::Expires, Removal::Told)
        .followed(lockkeeper_core::Following::Told)
        .on_condition(CONDITIONS);

/// What is promised of locks that are shared with those who take plain locks: they have no other kind.
const SHARED_CAPABILITIES: Capabilities =
    Capabilities::new("redis", Exclusion::BestEffort, Fencing::Clock, StoppedHolder::Expires, Removal::Told)
        .followed(lockkeeper_core::Following::Told)
        .carrying(Modes::MUTEX)
        .on_condition(SHARED_CONDITIONS);

/// What the exclusion rests on.
const CONDITIONS: &[&str] = &[
    "no replica is promoted that has not heard of a grant: replication is asynchronous",
    "a server that restarts still has its data: `appendonly yes` and `appendfsync always`",
    "the server evicts none of our keys: its `maxmemory-policy` is not `allkeys-…`",
    "the server's clock jumps forward at most once within a session timeout",
    "the clock of the holder's machine goes on while the machine stands still",
    "no operator deletes the keys of a holder while locks are held",
];

/// What it rests on where others take plain locks.
const SHARED_CONDITIONS: &[&str] = &[
    CONDITIONS[0],
    CONDITIONS[1],
    CONDITIONS[2],
    CONDITIONS[3],
    CONDITIONS[4],
    CONDITIONS[5],
    "towards plain locks: no client deletes a key without comparing its value, and the server's clock does not jump",
    "the order is not theirs: our own contenders are served in order, and another client may go between two of them",
];

/// Locks on one Redis or Valkey service.
///
/// ```
/// use lockkeeper_core::Backend;
/// use lockkeeper_recipes::Keeper;
/// use lockkeeper_redis::RedisBackend;
///
/// let backend = RedisBackend::open(&"redis://h1?session_timeout=20s".parse()?)?;
/// assert_eq!(backend.capabilities().backend, "redis");
/// let keeper = Keeper::new(std::sync::Arc::new(backend));
/// # let _ = keeper;
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
pub struct RedisBackend {
    config: Arc<Config>,
    layout: Layout,
    clock: Arc<dyn Clock>,
    onlooker: Arc<Onlooker>,
    #[cfg(feature = "testing")]
    testing: Testing,
}

impl RedisBackend {
    /// Takes the service that a `redis:` URL names. No connection is opened yet.
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
        Box::pin(self.onlooker.clone().look(Operation::Inspect, look))
    }
}

impl Backend for RedisBackend {
    fn service(&self) -> String {
        self.config.service.clone()
    }

    fn capabilities(&self) -> &Capabilities {
        match self.config.naming {
            Naming::Ours => &CAPABILITIES,
            Naming::Setnx => &SHARED_CAPABILITIES,
        }
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        let opening = Opening {
            config: self.config.clone(),
            clock: self.clock.clone(),
            #[cfg(feature = "testing")]
            testing: self.testing.clone(),
        };
        let onlooker = self.onlooker.clone();
        Box::pin(async move {
            let opened = open(opening).await;
            onlooker.note(opened.as_ref().map(|core| &core.life));
            let core = opened?;
            #[cfg(feature = "testing")]
            core.testing.note_session(core.id.to_string());
            Ok(Arc::new(queue::begin(core)) as Arc<dyn Session>)
        })
    }

    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        if let Some(why) = self.layout.refusal(queue) {
            let error = Error::permanent(ErrorKind::InvalidName, Operation::Inspect, why).at(queue);
            return Box::pin(std::future::ready(Err(error)));
        }
        let (layout, name) = (self.layout.clone(), queue.clone());
        let look = self.look(move |connection, deadline| {
            let (layout, name) = (layout.clone(), name.clone());
            Box::pin(async move {
                let looking = Onlooking { connection: &connection, layout: &layout, deadline };
                queue::inspect(&looking, &name).await
            })
        });
        let name = queue.clone();
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
        Some(Following::new(config, clock, scope).begin())
    }

    fn examine(&self, scrutiny: Scrutiny) -> BoxFuture<Result<Vec<Finding>>> {
        let examination = Examination { config: self.config.clone(), clock: self.clock.clone() };
        self.look(move |connection, deadline| {
            let examination = examination.clone();
            Box::pin(async move {
                match scrutiny {
                    Scrutiny::Brief => examine_briefly(&connection, deadline).await,
                    _ => examine_wholly(&examination, &connection, deadline).await,
                }
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

impl fmt::Debug for RedisBackend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("RedisBackend").field(&self.config).finish()
    }
}
