//! The backend: it opens sessions, and looks at queues without joining them.

use std::sync::Arc;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{
    AdminBackend, Backend, BoxFuture, Capabilities, ContenderInfo, Error, ErrorKind, Exclusion, Fencing, Finding,
    Follower, Modes, Operation, QueueName, Removal, Result, Scope, Scrutiny, ServiceUrl, Session, StoppedHolder,
};
use lockkeeper_session::{follow, refuse};

use crate::examine::{examine_briefly, examine_wholly};
use crate::follow::Following;
use crate::look::{self, Onlooker, onlooker};
use crate::queue;
use crate::script::KeyScheme;
use crate::session::open;
use crate::url::{Config, RedisSite};

const CAPABILITIES: Capabilities =
    Capabilities::new("redis", Exclusion::BestEffort, Fencing::Clock, StoppedHolder::Expires, Removal::Told)
        .followed(lockkeeper_core::Following::Told)
        .on_condition(CONDITIONS);

/// The promises for locks that are shared with clients of plain locks, which have no other kind.
const SHARED_CAPABILITIES: Capabilities = CAPABILITIES.carrying(Modes::MUTEX).on_condition(SHARED_CONDITIONS);

/// Conditions of the exclusion.
const CONDITIONS: &[&str] = &[
    "no replica is promoted that has not heard of a grant: replication is asynchronous",
    "a server that restarts still has its data: `appendonly yes` and `appendfsync always`",
    "the server evicts none of our keys: its `maxmemory-policy` is not `allkeys-…`",
    "the server's clock jumps forward at most once within a session timeout",
    "the clock of the holder's machine goes on while the machine stands still",
    "no operator deletes the keys of a holder while locks are held",
];

/// Its conditions where other clients take plain locks.
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
#[derive(Debug)]
pub struct RedisBackend {
    site: RedisSite,
    onlooker: Arc<Onlooker>,
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
        let layout = config.layout();
        let site = RedisSite::new(config, layout, clock);
        Self { onlooker: Arc::new(onlooker(&site)), site }
    }

    /// Returns the means to do harm to this client.
    #[cfg(feature = "testing")]
    pub fn testing(&self) -> lockkeeper_session::ClientTesting {
        self.site.testing.clone()
    }
}

impl Backend for RedisBackend {
    fn capabilities(&self) -> &Capabilities {
        match self.site.config.naming {
            KeyScheme::Ours => &CAPABILITIES,
            KeyScheme::Setnx => &SHARED_CAPABILITIES,
        }
    }

    fn service(&self) -> String {
        self.site.config.service.clone()
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        let (site, onlooker) = (self.site.clone(), self.onlooker.clone());
        Box::pin(async move {
            let opened = open(site).await;
            onlooker.note(opened.as_ref().map(|core| &core.life));
            Ok(Arc::new(queue::begin(opened?)) as Arc<dyn Session>)
        })
    }

    fn admin(&self) -> &dyn AdminBackend {
        self
    }

    fn trouble(&self) -> Option<Error> {
        // An attempt that waits for a server has not failed yet.
        let loading = self.site.config.access.loading.trouble();
        loading.map(|failure| failure.into_core(Operation::Connect, false)).or_else(|| self.onlooker.trouble())
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.onlooker.close()
    }
}

impl AdminBackend for RedisBackend {
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
        self.onlooker.look_at(self.site.clone(), |looking, site| Box::pin(examine_wholly(looking, site)))
    }
}
