//! PostgreSQL as a kind of database.

use std::sync::Arc;

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{Effect, Failure, FailureKind, Server};

use crate::engine::{Connected, Engine};
use crate::postgres::greeting::grants;
use crate::postgres::open::{Intent, connect};
use crate::postgres::text;
use crate::url::Config;

/// PostgreSQL at the servers of a URL.
#[derive(Clone, Debug)]
pub(crate) struct Postgres {
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
}

impl Postgres {
    pub(crate) const fn new(config: Arc<Config>, clock: Arc<dyn Clock>) -> Self {
        Self { config, clock }
    }

    async fn connect_until(
        &self,
        server: &Server,
        deadline: BootInstant,
        intent: Intent,
    ) -> Result<Connected, Failure> {
        tokio::select! {
            biased;
            connected = connect(&self.config, server, &self.clock, intent) => connected,
            () = self.clock.sleep_until(deadline) => Err(Failure::late(Effect::None)),
        }
        .map_err(|failure| failure.at(server))
    }

    /// Makes the schema at the first server that is no standby.
    async fn set_up_until(&self, deadline: BootInstant) -> Result<(), Failure> {
        let mut trouble = Failure::broken(Effect::None);
        for server in &self.config.servers {
            match self.connect_until(server, deadline, Intent::SetUp).await {
                Ok(_) => return Ok(()),
                Err(failure) if matches!(failure.kind, FailureKind::ReadOnly | FailureKind::Broken) => {
                    trouble = failure;
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(trouble)
    }
}

impl Engine for Postgres {
    fn connect(&self, server: usize, deadline: BootInstant) -> BoxFuture<Result<Connected, Failure>> {
        let this = self.clone();
        Box::pin(async move {
            let server = this.config.servers.get(server).ok_or_else(Failure::unexpected)?;
            this.connect_until(server, deadline, Intent::Serve).await
        })
    }

    fn set_up(&self, deadline: BootInstant) -> BoxFuture<Result<(), Failure>> {
        let this = self.clone();
        Box::pin(async move { this.set_up_until(deadline).await })
    }

    fn set_up_text(&self) -> String {
        let schema = &self.config.schema;
        let text = text::set_up(schema);
        let app = grants(schema, "app");
        format!(
            "BEGIN;\n{text}COMMIT;\n\
             -- The role `app` that locks needs no more than this, and one that only looks the last line alone:\n\
             -- {app}\n\
             -- GRANT USAGE ON SCHEMA {schema} TO \"viewer\"; GRANT EXECUTE ON FUNCTION {schema}.inspect_v1, \
             {schema}.inspect_all_v1, {schema}.queues_v1 TO \"viewer\";\n"
        )
    }
}
