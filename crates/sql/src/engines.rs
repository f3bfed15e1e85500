//! The kinds of database that are compiled in, and the servers of a URL.

#[cfg(all(test, feature = "mysql", feature = "postgres", feature = "tls"))]
mod tests;

use std::pin::Pin;
use std::sync::Arc;

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::{BootInstant, Clock};
#[cfg(not(all(feature = "postgres", feature = "mysql")))]
use lockkeeper_core::{Error, ErrorKind, Operation};
use lockkeeper_session::{Effect, Failure, Server};

use crate::engine::{Connected, Engine, Intent};
use crate::url::{Config, Dialect};

/// The database that a URL names.
#[cfg_attr(not(any(feature = "postgres", feature = "mysql")), expect(unused_variables, reason = "none is compiled in"))]
pub(crate) fn of(config: &Arc<Config>, clock: &Arc<dyn Clock>) -> lockkeeper_core::Result<Arc<dyn Engine>> {
    match config.dialect {
        #[cfg(feature = "postgres")]
        Dialect::Postgres => Ok(Servers::shared(&crate::postgres::POSTGRES, config, clock)),
        #[cfg(not(feature = "postgres"))]
        Dialect::Postgres => Err(missing("postgres")),
        #[cfg(feature = "mysql")]
        Dialect::Mysql => Ok(Servers::shared(&crate::mysql::MYSQL, config, clock)),
        #[cfg(not(feature = "mysql"))]
        Dialect::Mysql => Err(missing("mysql")),
    }
}

#[cfg(not(all(feature = "postgres", feature = "mysql")))]
fn missing(feature: &str) -> Error {
    let message = format!("lockkeeper-sql was built without the feature `{feature}`");
    Error::permanent(ErrorKind::Unsupported, Operation::Configure, message)
}

/// What is one kind of database's own.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Connects to a server, and makes sure that locks can be had. The connection is driven on the runtime in which
    /// this is called.
    pub(crate) connect: for<'a> fn(&'a Arc<Config>, &'a Server, &'a Arc<dyn Clock>, Intent) -> Connecting<'a>,
    /// The text that makes a schema, with the rights to give.
    pub(crate) set_up_text: fn(schema: &str) -> String,
}

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Connected, Failure>> + Send + 'a>>;

/// The servers of a URL.
#[derive(Clone, Debug)]
struct Servers {
    kind: &'static Kind,
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
}

impl Servers {
    fn shared(kind: &'static Kind, config: &Arc<Config>, clock: &Arc<dyn Clock>) -> Arc<dyn Engine> {
        Arc::new(Self { kind, config: config.clone(), clock: clock.clone() })
    }

    async fn connect_until(
        &self,
        server: &Server,
        deadline: BootInstant,
        intent: Intent,
    ) -> Result<Connected, Failure> {
        tokio::select! {
            biased;
            connected = (self.kind.connect)(&self.config, server, &self.clock, intent) => connected,
            () = self.clock.sleep_until(deadline) => Err(Failure::late(Effect::None)),
        }
        .map_err(|failure| failure.at(server))
    }

    /// Makes the schema at the first server that writes.
    async fn set_up_until(&self, deadline: BootInstant) -> Result<(), Failure> {
        let mut finder = self.config.finder(&self.clock);
        let making = |way, ends| async move { self.connect_until(&way, ends, Intent::SetUp).await.map(drop) };
        finder.round(deadline, making).await
    }
}

impl Engine for Servers {
    fn connect(&self, server: &Server, deadline: BootInstant, intent: Intent) -> BoxFuture<Result<Connected, Failure>> {
        let (this, server) = (self.clone(), server.clone());
        Box::pin(async move { this.connect_until(&server, deadline, intent).await })
    }

    fn set_up(&self, deadline: BootInstant) -> BoxFuture<Result<(), Failure>> {
        let this = self.clone();
        Box::pin(async move { this.set_up_until(deadline).await })
    }

    fn set_up_text(&self) -> String {
        (self.kind.set_up_text)(&self.config.schema)
    }
}
