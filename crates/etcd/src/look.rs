//! How etcd is looked at without a session.

use std::sync::Arc;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{BoxFuture, Operation, Result};
use lockkeeper_session::{Effect, Failure, FailureKind, Lookable, Looking, Server};

use crate::rpc::{Connection, for_lack_of};
use crate::session::Link;
use crate::url::Config;

/// Where looks go.
pub(crate) type Onlooker = lockkeeper_session::Onlooker<Link, Connection>;

/// Begins without a connection.
pub(crate) fn onlooker(config: Arc<Config>, clock: Arc<dyn Clock>) -> Onlooker {
    let (timeout, of_onlooker) = (config.operation_timeout, clock.clone());
    let looking = Looking {
        open: Box::new(move || {
            let (config, clock) = (config.clone(), clock.clone());
            Box::pin(async move {
                let opened = open_from(0, &config, &clock)
                    .await
                    .map_err(|failure| for_lack_of(failure, &config.layout().rights()));
                opened.map(Arc::new).map_err(|failure| failure.into_core(Operation::Inspect, false))
            })
        }),
        lend: |link: &Link| link.connection.clone(),
        // Holders have no part in a look that took too long, or that came to a member with too much to do.
        is_useless: |failure| failure.kind == FailureKind::Unavailable && failure.effect == Effect::Unknown,
    };
    Onlooker::new(of_onlooker, timeout, looking)
}

/// Makes a look, and says which rights the user lacks if that is why it failed.
pub(crate) async fn look<T: Send + 'static>(
    onlooker: Arc<Onlooker>,
    config: Arc<Config>,
    mut look: impl FnMut(Arc<Connection>, BootInstant) -> BoxFuture<Result<T, Failure>> + Send,
) -> Result<T> {
    let looking = onlooker.look(Operation::Inspect, move |connection, deadline| {
        let (looking, config) = (look(connection, deadline), config.clone());
        Box::pin(async move { looking.await.map_err(|failure| for_lack_of(failure, &config.layout().rights())) })
    });
    looking.await
}

impl Lookable for Connection {
    fn is_over(&self) -> bool {
        self.is_over()
    }

    fn shut(&self) {
        self.shut();
    }
}

/// Opens a connection for looks to the first member that accepts one, beginning with this one.
pub(crate) async fn open_from(first: usize, config: &Config, clock: &Arc<dyn Clock>) -> Result<Connection, Failure> {
    let deadline = clock.now().saturating_add(config.connect_timeout);
    let attempt = |server: Server, attempt_ends| async move {
        Connection::open_for_looks(&server, &config.access, clock, attempt_ends).await
    };
    config.finder(first, clock).round(deadline, attempt).await
}
