//! How Redis is looked at without a session.

use std::sync::Arc;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Operation, Result};
use lockkeeper_session::{Failure, Lookable, Looking};

use crate::connection::{Connection, Finder};
use crate::session::{Link, taught, teach};
use crate::url::Config;

/// Where looks go.
pub(crate) type Onlooker = lockkeeper_session::Onlooker<Link, Connection>;

/// Begins without a connection.
pub(crate) fn onlooker(config: Arc<Config>, clock: Arc<dyn Clock>) -> Onlooker {
    let (timeout, of_onlooker) = (config.operation_timeout, clock.clone());
    let looking = Looking {
        open: Box::new(move || Box::pin(open(config.clone(), clock.clone()))),
        lend: |link: &Link| link.connection.clone(),
        is_useless: Failure::needs_another,
    };
    Onlooker::new(of_onlooker, timeout, looking)
}

async fn open(config: Arc<Config>, clock: Arc<dyn Clock>) -> Result<Arc<Connection>> {
    let deadline = clock.now().saturating_add(config.connect_timeout);
    let mut finder = Finder::new(config.clone(), clock.clone());
    let (config, clock) = (&config, &clock);
    let opened = finder.round(deadline, |server, attempt_ends| async move {
        let connection = Connection::open(&server, &config.access, clock, attempt_ends).await?;
        config.check(&connection)?;
        // A server of a cluster that does not have the keys says so.
        let mut probe = redis::cmd("HGET");
        probe.arg(config.layout().base()).arg("tok");
        taught(connection.flight_until(teach(&config.layout()).command(probe), attempt_ends).await?, "HGET")?;
        Ok(Arc::new(connection))
    });
    opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))
}

impl Lookable for Connection {
    fn is_over(&self) -> bool {
        self.is_over()
    }

    fn shut(&self) {
        self.shut();
    }
}
