//! The backend: it opens sessions, and looks at queues without joining them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{
    AdminBackend, Backend, BoxFuture, Capabilities, ContenderInfo, Error, ErrorKind, Exclusion, Fencing, Finding,
    Follower, Operation, QueueName, Removal, Result, Scope, Scrutiny, ServiceUrl, Session, StoppedHolder,
};
use lockkeeper_session::follow;

use crate::engine::Intent;
use crate::examine::examine;
use crate::follow::Following;
use crate::look::{self, Onlooker, ask, onlooker};
use crate::queue;
use crate::session::open;
use crate::site::SqlSite;
use crate::statement::{Argument, Statement, status};
use crate::url::{self, Config, Dialect};

const POSTGRES: Capabilities =
    Capabilities::new("postgres", Exclusion::Timed, Fencing::Clock, StoppedHolder::Expires, Removal::Noticed)
        .followed(lockkeeper_core::Following::Looks)
        .on_condition(POSTGRES_CONDITIONS);

const MYSQL: Capabilities =
    Capabilities::new("mysql", Exclusion::Timed, Fencing::Clock, StoppedHolder::Expires, Removal::Noticed)
        .followed(lockkeeper_core::Following::Looks)
        .on_condition(MYSQL_CONDITIONS);

/// A server that only speaks as one of these does, and has passed a trial.
const fn unverified(backend: &'static str) -> Capabilities {
    Capabilities::new(backend, Exclusion::BestEffort, Fencing::Service, StoppedHolder::Expires, Removal::Noticed)
        .followed(lockkeeper_core::Following::Looks)
        .on_condition(&[
            "the server is none that locks were tested on (`server=unverified`): it has what they need as far as a \
             trial of two connections shows, which knows nothing of crashes and failovers",
        ])
}

const UNVERIFIED_POSTGRES: Capabilities = unverified("postgres");
const UNVERIFIED_MYSQL: Capabilities = unverified("mysql");

/// What the exclusion rests on.
const POSTGRES_CONDITIONS: &[&str] = &[
    "a primary that was replaced answers no client any more: a standby is promoted only when the old primary is dead",
    "the clocks of the clients' machines run at one speed, within 2 %; what they show does not matter, nor does the \
     server's",
    "the clock of the holder's machine goes on while the machine stands still",
    "a crash of the server's machine damages no data: `fsync` and `full_page_writes` are on",
    "no operator deletes the rows of a holder",
    "where older data that look complete are put back, cold or into a running server, a client that held a lock is \
     connected, or `lockkeeper doctor --after-restore` comes first",
];

/// What it rests on there.
const MYSQL_CONDITIONS: &[&str] = &[
    "a server that was replaced answers no client any more: a replica is promoted only when the old server is dead",
    POSTGRES_CONDITIONS[1],
    POSTGRES_CONDITIONS[2],
    POSTGRES_CONDITIONS[4],
    "where older data are put back on the same server, a client that held a lock is connected, or `lockkeeper doctor \
     --after-restore` comes first",
    "one server is written to: Group Replication with several primaries is refused, and Galera but for \
     `galera=one-node`",
    "it was tested on MariaDB; on MySQL it was not",
];

/// Locks on one PostgreSQL, MariaDB or MySQL.
///
#[cfg_attr(feature = "postgres", doc = "```")]
#[cfg_attr(not(feature = "postgres"), doc = "```ignore")]
/// use lockkeeper_core::Backend;
/// use lockkeeper_recipes::Keeper;
/// use lockkeeper_sql::SqlBackend;
///
/// let backend = SqlBackend::open(&"postgres://app@db1/app?session_timeout=20s".parse()?)?;
/// assert_eq!(backend.capabilities().backend, "postgres");
/// let keeper = Keeper::new(std::sync::Arc::new(backend));
/// # let _ = keeper;
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
pub struct SqlBackend {
    site: SqlSite,
    onlooker: Arc<Onlooker>,
}

impl SqlBackend {
    /// Takes the service that a `postgres:`, `mysql:` or `mariadb:` URL names. No connection is opened yet.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](lockkeeper_core::ErrorKind::InvalidUrl), permanent, naming what is wrong;
    /// [`Unsupported`](lockkeeper_core::ErrorKind::Unsupported) for a database whose feature is not compiled in.
    pub fn open(url: &ServiceUrl) -> Result<Self> {
        Self::with(Config::from_url(url)?, Arc::new(SystemClock))
    }

    /// Takes a service by another clock, which should be the keeper's too.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](lockkeeper_core::ErrorKind::Unsupported) for a database whose feature is not compiled in.
    pub fn with(config: Config, clock: Arc<dyn Clock>) -> Result<Self> {
        let site = SqlSite::new(config, clock)?;
        Ok(Self { onlooker: Arc::new(onlooker(&site)), site })
    }

    /// Takes the PostgreSQL that a pool of the program's leads to: each call of a lock borrows a connection for one
    /// message, and no hold and no wait keeps one.
    ///
    /// The URL carries the settings, and its host is the name of the database in messages. What it says of connecting
    /// (further hosts, user, password, TLS) is the pool's, and is not used. Waiters look, the next in line every 50 ms:
    /// no connection stays to be told over.
    ///
    /// A session beats over the pool too. Where all connections are in use for longer than the session's timeout, its
    /// guards are lost at their deadlines, and the reason names the pool.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](lockkeeper_core::ErrorKind::InvalidUrl), permanent, naming what is wrong.
    #[cfg(feature = "postgres")]
    pub fn on_pool(pool: Arc<dyn crate::PostgresPool>, url: &ServiceUrl) -> Result<Self> {
        let site = SqlSite::on_pool(pool, Config::of_pool(url)?, Arc::new(SystemClock));
        Ok(Self { onlooker: Arc::new(onlooker(&site)), site })
    }

    /// Returns the means to do harm to this client.
    #[cfg(feature = "testing")]
    pub fn testing(&self) -> lockkeeper_session::ClientTesting {
        self.site.testing.clone()
    }

    /// Sets the longest session timeout, or says that the data were restored if there is none.
    fn limit(&self, timeout_max: Option<Duration>) -> BoxFuture<Result<()>> {
        let onlooker = self.onlooker.clone();
        Box::pin(async move {
            if let Some(timeout_max) = timeout_max {
                url::check_session_timeout(timeout_max)?;
            }
            let timeout_ms = timeout_max.and_then(|timeout_max| i64::try_from(timeout_max.as_millis()).ok());
            let limit = Argument::OptionalInt(timeout_ms);
            let statement = Statement::new("limit", vec![limit, Argument::Flag(timeout_max.is_none())]);
            let rows = ask(&onlooker, statement, Operation::Configure).await?;
            let status = status(&rows).map_err(|failure| failure.into_core(Operation::Configure, true))?;
            if status.text.as_deref() == Some("ok") {
                return Ok(());
            }
            let longest = Duration::from_millis(status.timeout_ms.unwrap_or_default().unsigned_abs());
            let message = format!("a session with a timeout of {longest:?} is open, which is longer: end it first");
            Err(Error::permanent(ErrorKind::InvalidConfig, Operation::Configure, message))
        })
    }
}

impl fmt::Debug for SqlBackend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SqlBackend").field(&self.site.config).finish()
    }
}

impl Backend for SqlBackend {
    fn service(&self) -> String {
        self.site.config.service.clone()
    }

    fn capabilities(&self) -> &Capabilities {
        match (self.site.config.dialect, self.site.config.is_unverified) {
            (Dialect::Postgres, false) => &POSTGRES,
            (Dialect::Mysql, false) => &MYSQL,
            (Dialect::Postgres, true) => &UNVERIFIED_POSTGRES,
            (Dialect::Mysql, true) => &UNVERIFIED_MYSQL,
        }
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
        self.onlooker.trouble()
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.onlooker.close()
    }
}

impl AdminBackend for SqlBackend {
    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        let (onlooker, name) = (self.onlooker.clone(), queue.clone());
        Box::pin(async move { look::inspect(&onlooker, &name).await.map_err(|error| error.at(&name)) })
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        let (onlooker, prefix) = (self.onlooker.clone(), prefix.to_owned());
        Box::pin(async move { look::names(&onlooker, &prefix).await })
    }

    fn follow(&self, scope: &Scope) -> Option<Follower> {
        Some(follow(Following::new(self.site.clone(), scope.clone())))
    }

    /// What makes locks worse than they are promised, a session meets when it connects, and is refused there: a brief
    /// examination asks nothing.
    fn examine(&self, scrutiny: Scrutiny) -> BoxFuture<Result<Vec<Finding>>> {
        if scrutiny == Scrutiny::Brief {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let (site, onlooker) = (self.site.clone(), self.onlooker.clone());
        Box::pin(onlooker.look(Operation::Inspect, site, |site, lookout, _| Box::pin(examine(site, lookout))))
    }

    fn set_up(&self) -> BoxFuture<Result<()>> {
        let site = self.site.clone();
        Box::pin(async move {
            let made = site.connect(Intent::SetUp).await;
            made.map(drop).map_err(|failure| failure.into_core(Operation::Configure, false))
        })
    }

    fn after_restore(&self) -> BoxFuture<Result<Finding>> {
        let limiting = self.limit(None);
        Box::pin(async move {
            limiting.await?;
            Ok(Finding::note("no lock is granted until every session of before the restore has run out"))
        })
    }

    fn limit_session_timeout(&self, timeout_max: Duration) -> BoxFuture<Result<()>> {
        self.limit(Some(timeout_max))
    }

    fn set_up_text(&self) -> Option<String> {
        Some(self.site.set_up_text())
    }
}
