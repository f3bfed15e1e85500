//! Clients of the databases for the trials that all backends share. A client is of the kind that its URL says.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_core::{Backend, Result, ServiceUrl};
use lockkeeper_sql::SqlBackend;
use lockkeeper_trials::Service;

pub(crate) const POSTGRES: Service =
    Service { url: |servers, settings| url("postgres://postgres@", servers, "postgres", settings), open };

pub(crate) const MARIADB: Service =
    Service { url: |servers, settings| url("mariadb://root@", servers, "", settings), open };

fn url(begin: &str, servers: &[SocketAddr], database: &str, settings: &str) -> String {
    let hosts: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
    format!("{begin}{}/{database}?{settings}", hosts.join(","))
}

fn open(url: &ServiceUrl) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(SqlBackend::open(url)?))
}
