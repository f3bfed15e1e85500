//! How a database is looked at without a session.

use std::sync::Arc;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Operation, Result};
use lockkeeper_session::{Failure, Lookable, Looking};

use crate::engine::{Engine, Waking, Wire};
use crate::session::Link;
use crate::statement::{Row, Statement};
use crate::url::Config;

/// Where looks go.
pub(crate) type Onlooker = lockkeeper_session::Onlooker<Link, Lookout>;

/// A connection for looks.
#[derive(Clone, Debug)]
pub(crate) struct Lookout {
    pub(crate) wire: Arc<dyn Wire>,
    /// How waiters are woken over it.
    pub(crate) waking: Waking,
}

impl Lookable for Lookout {
    fn is_over(&self) -> bool {
        self.wire.is_over()
    }

    fn shut(&self) {
        self.wire.shut();
    }
}

/// Begins without a connection.
pub(crate) fn onlooker(engine: Arc<dyn Engine>, config: Arc<Config>, clock: Arc<dyn Clock>) -> Onlooker {
    let (timeout, of_onlooker) = (config.operation_timeout, clock.clone());
    let looking = Looking {
        open: Box::new(move || Box::pin(open(engine.clone(), config.clone(), clock.clone()))),
        lend: |link: &Link| Arc::new(Lookout { wire: link.wire.clone(), waking: link.waking }),
        is_useless: Failure::needs_another,
    };
    Onlooker::new(of_onlooker, timeout, looking)
}

/// Asks, again over the next connection if one fails. What is asked may be executed more than once.
pub(crate) async fn ask(onlooker: &Arc<Onlooker>, statement: &Statement, operation: Operation) -> Result<Vec<Row>> {
    onlooker.clone().look(operation, |lookout, _| lookout.wire.ask(statement.clone())).await
}

async fn open(engine: Arc<dyn Engine>, config: Arc<Config>, clock: Arc<dyn Clock>) -> Result<Arc<Lookout>> {
    let deadline = clock.now().saturating_add(config.connect_timeout);
    let engine = &engine;
    let mut finder = config.finder(&clock);
    let opened = finder.round(deadline, |server, attempt_ends| async move {
        let connected = engine.connect(&server, attempt_ends).await?;
        Ok(Arc::new(Lookout { wire: connected.wire, waking: connected.greeting.waking }))
    });
    opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))
}
