//! Looks at etcd without a session.

use std::sync::Arc;

use lockkeeper_core::{Operation, Result};
use lockkeeper_session::{Effect, Failure, FailureKind, Server};

use crate::rpc::Connection;
use crate::session::Begun;
use crate::url::Site;

/// Where looks go.
pub(crate) type Onlooker = lockkeeper_session::Onlooker<Connection, Begun>;

/// Begins without a connection.
pub(crate) fn onlooker(site: &Site) -> Onlooker {
    let site = site.clone();
    // Holders have no part in a look that took too long, or that came to a member with too much to do.
    let is_useless = |failure: &Failure| failure.kind == FailureKind::Unavailable && failure.effect == Effect::Unknown;
    Onlooker::new(site.clock.clone(), site.config.operation_timeout, is_useless, move || {
        let site = site.clone();
        Box::pin(async move {
            let opened = open_from(0, &site).await;
            opened.map(Arc::new).map_err(|failure| failure.into_core(Operation::Inspect, false))
        })
    })
}

/// Opens a connection for looks to the first member that accepts one, beginning with this one.
pub(crate) async fn open_from(first: usize, Site { config, clock, .. }: &Site) -> Result<Connection, Failure> {
    let deadline = clock.now().saturating_add(config.connect_timeout);
    let attempt = |server: Server, attempt_ends| async move {
        Connection::open_for_looks(&server, &config.access, clock, attempt_ends).await
    };
    config.finder(first, clock).round(deadline, attempt).await
}
