//! A pool of connections to a real PostgreSQL, as programs have it.

use std::net::SocketAddr;
use std::sync::Arc;

use deadpool_postgres::{Manager, ManagerConfig, RecyclingMethod, Runtime};

/// How many connections a pool has: fewer than most cases have waits.
pub(crate) const POOLED: u32 = 3;

/// A pool of deadpool, whose connections lead to the first of these ways that is open.
pub(crate) fn deadpool(ways: &[SocketAddr], connections: u32) -> Arc<deadpool_postgres::Pool> {
    let mut config = tokio_postgres::Config::new();
    config.user("postgres").dbname("postgres");
    for way in ways {
        config.host(way.ip().to_string()).port(way.port());
    }
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config, tokio_postgres::NoTls, manager);
    let size = usize::try_from(connections).expect("a small number");
    let pool = deadpool_postgres::Pool::builder(manager).max_size(size).runtime(Runtime::Tokio1).build();
    Arc::new(pool.expect("a pool"))
}
