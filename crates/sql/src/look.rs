//! Looks at a database without a session.

use std::sync::Arc;

use lockkeeper_core::{Operation, Result};
use lockkeeper_session::{Failure, Lookable, Server};

use crate::engine::{Greeting, Intent, WakeMethod, Wire};
use crate::site::Site;
use crate::statement::{Row, Statement};

/// Where looks go.
pub(crate) type Onlooker = lockkeeper_session::Onlooker<Lookout, ()>;

/// A connection, as it was greeted.
#[derive(Debug)]
pub(crate) struct Lookout {
    pub(crate) wire: Arc<dyn Wire>,
    server: Server,
    /// The server's account of itself.
    pub(crate) instance: String,
    /// How waiters are woken over it.
    pub(crate) wake_method: WakeMethod,
}

impl Lookout {
    pub(crate) fn new(wire: Arc<dyn Wire>, server: Server, greeting: Greeting) -> Self {
        let Greeting { instance, wake_method } = greeting;
        Self { wire, server, instance, wake_method }
    }
}

impl Lookable for Lookout {
    fn is_over(&self) -> bool {
        self.wire.is_over()
    }

    fn shut(&self) {
        self.wire.shut();
    }

    fn server(&self) -> &Server {
        &self.server
    }
}

/// Begins without a connection.
pub(crate) fn onlooker(site: &Site) -> Onlooker {
    let site = site.clone();
    Onlooker::new(site.clock.clone(), site.config.operation_timeout, Failure::needs_another, move || {
        Box::pin(open(site.clone()))
    })
}

/// Asks, again over the next connection if one fails. What is asked may be executed more than once.
pub(crate) async fn ask(onlooker: &Arc<Onlooker>, statement: Statement, operation: Operation) -> Result<Vec<Row>> {
    onlooker.clone().look(operation, statement, |statement, lookout, _| lookout.wire.ask(statement.clone())).await
}

async fn open(Site { engine, config, clock, .. }: Site) -> Result<Arc<Lookout>> {
    let deadline = clock.now().saturating_add(config.connect_timeout);
    let engine = &engine;
    let mut finder = config.finder(&clock);
    let opened = finder.round(deadline, |server, attempt_ends| async move {
        let connected = engine.connect(&server, attempt_ends, Intent::Look).await?;
        Ok(Arc::new(Lookout::new(connected.wire, server, connected.greeting)))
    });
    opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))
}
