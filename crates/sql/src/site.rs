//! The database of a URL: how its servers are connected to, and what its sessions share.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{BoxFuture, Error, ErrorKind, Operation, Result};
use lockkeeper_session::{ClientTesting, Effect, Failure, Server, until};

use crate::engine::{Connected, DatabaseEngine, Intent};
#[cfg(feature = "postgres")]
use crate::postgres::PostgresPool;
use crate::url::{Config, Dialect};

/// A database. Its clones are the same.
#[derive(Clone)]
pub(crate) struct SqlSite {
    pub(crate) engine: Arc<dyn DatabaseEngine>,
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) testing: ClientTesting,
    /// Set once an unverified server has passed its trial.
    pub(crate) is_tried: Arc<OnceLock<()>>,
    /// The greatest timeout of sessions, in milliseconds, as the data of now, or those of before their loss, last told.
    pub(crate) timeout_max_ms: Arc<AtomicI64>,
}

impl SqlSite {
    pub(crate) fn new(config: Config, clock: Arc<dyn Clock>) -> Result<Self> {
        let (feature, is_compiled_in) = match config.dialect {
            Dialect::Postgres => ("postgres", cfg!(feature = "postgres")),
            Dialect::Mysql => ("mysql", cfg!(feature = "mysql")),
        };
        if !is_compiled_in {
            let message = format!("lockkeeper-sql was built without the feature `{feature}`");
            return Err(Error::permanent(ErrorKind::Unsupported, Operation::Configure, message));
        }
        let config = Arc::new(config);
        let engine = Arc::new(Servers { config: config.clone(), clock: clock.clone() });
        Ok(Self::over(engine, config, clock))
    }

    /// A database that this pool leads to.
    #[cfg(feature = "postgres")]
    pub(crate) fn on_pool(pool: Arc<dyn PostgresPool>, config: Config, clock: Arc<dyn Clock>) -> Self {
        let config = Arc::new(config);
        let engine = Arc::new(PooledServer { pool, config: config.clone(), clock: clock.clone() });
        Self::over(engine, config, clock)
    }

    pub(crate) fn over(engine: Arc<dyn DatabaseEngine>, config: Arc<Config>, clock: Arc<dyn Clock>) -> Self {
        let (testing, is_tried, timeout_max_ms) = (ClientTesting::default(), Arc::default(), Arc::default());
        Self { engine, config, clock, testing, is_tried, timeout_max_ms }
    }

    /// Connects to the first server that serves. Each is tried once.
    pub(crate) async fn connect(&self, intent: Intent) -> Result<(Server, Connected), Failure> {
        let deadline = self.clock.now().saturating_add(self.config.connect_timeout);
        let attempt = |server: Server, attempt_ends| async move {
            let connected = self.engine.connect(&server, attempt_ends, intent).await?;
            Ok((server, connected))
        };
        self.config.finder(&self.clock).round(deadline, attempt).await
    }

    /// The text that makes the schema, for a database's own client, with the rights to give.
    pub(crate) fn set_up_text(&self) -> String {
        match self.config.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => crate::postgres::set_up_text(&self.config.schema),
            #[cfg(feature = "mysql")]
            Dialect::Mysql => crate::mysql::set_up_text(&self.config.schema),
            #[cfg(not(all(feature = "postgres", feature = "mysql")))]
            _ => unreachable!("{COMPILED_IN}"),
        }
    }
}

#[cfg(not(all(feature = "postgres", feature = "mysql")))]
const COMPILED_IN: &str = "a site is made of what is compiled in alone";

#[derive(Clone)]
struct Servers {
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
}

impl Servers {
    /// Connects to a server, and makes sure that locks can be had. The connection is driven on the runtime in which
    /// this is called.
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), expect(unused_variables, clippy::unused_async))]
    async fn connect_to(&self, server: &Server, intent: Intent) -> Result<Connected, Failure> {
        let Self { config, clock } = self;
        match config.dialect {
            #[cfg(feature = "postgres")]
            Dialect::Postgres => crate::postgres::connect(config, server, clock, intent).await,
            #[cfg(feature = "mysql")]
            Dialect::Mysql => crate::mysql::connect(config, server, clock, intent).await,
            #[cfg(not(all(feature = "postgres", feature = "mysql")))]
            _ => unreachable!("{COMPILED_IN}"),
        }
    }
}

impl DatabaseEngine for Servers {
    fn connect(&self, server: &Server, deadline: BootInstant, intent: Intent) -> BoxFuture<Result<Connected, Failure>> {
        let (this, server) = (self.clone(), server.clone());
        Box::pin(async move {
            let connecting = this.connect_to(&server, intent);
            until(&*this.clock, deadline, Effect::None, connecting).await.map_err(|failure| failure.at(&server))
        })
    }
}

/// The server that a pool leads to.
#[cfg(feature = "postgres")]
#[derive(Clone)]
struct PooledServer {
    pool: Arc<dyn PostgresPool>,
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
}

#[cfg(feature = "postgres")]
impl DatabaseEngine for PooledServer {
    fn connect(&self, server: &Server, deadline: BootInstant, intent: Intent) -> BoxFuture<Result<Connected, Failure>> {
        let (Self { pool, config, clock }, server) = (self.clone(), server.clone());
        Box::pin(async move {
            let connecting = crate::postgres::connect_over(&pool, &config, &clock, intent);
            until(&*clock, deadline, Effect::None, connecting).await.map_err(|failure| failure.at(&server))
        })
    }
}
