//! Looks at Redis without a session.

use std::sync::Arc;

use lockkeeper_core::{Operation, Result};
use lockkeeper_session::Failure;

use crate::connection::Connection;
use crate::session::{taught, teach};
use crate::url::Site;

/// Where looks go.
pub(crate) type Onlooker = lockkeeper_session::Onlooker<Connection, ()>;

/// Begins without a connection.
pub(crate) fn onlooker(site: &Site) -> Onlooker {
    let site = site.clone();
    Onlooker::new(site.clock.clone(), site.config.operation_timeout, Failure::needs_another, move || {
        Box::pin(open(site.clone()))
    })
}

async fn open(site: Site) -> Result<Arc<Connection>> {
    let Site { config, layout, clock, .. } = &site;
    let deadline = clock.now().saturating_add(config.connect_timeout);
    let mut finder = config.finder(clock);
    let opened = finder.round(deadline, |server, attempt_ends| async move {
        let connection = Connection::open(&server, &config.access, clock, attempt_ends).await?;
        config.check(&connection)?;
        // A server of a cluster that does not have the keys says so.
        let mut probe = redis::cmd("HGET");
        probe.arg(layout.base()).arg("tok");
        taught(connection.send_until(teach(layout).command(probe), attempt_ends).await?, "HGET")?;
        Ok(Arc::new(connection))
    });
    opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))
}
