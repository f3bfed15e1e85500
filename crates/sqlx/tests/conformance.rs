//! The conformance suite on real PostgreSQL over a pool of sqlx with three connections, which no client keeps: each
//! case has a server alone while it runs. The long run has all cases, the plain one those about waiters, who look here.

#[path = "../../sql/tests/support/suite.rs"]
mod suite;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use lockkeeper_faults::long;
use lockkeeper_sqlx::SqlxPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::suite::Kind;

/// How many connections a pool has: fewer than most cases have waits.
const POOLED: u32 = 3;

/// What the names of the cases have in them that the plain run has.
const PLAIN: &str = "waiter";

fn main() -> ExitCode {
    suite::run(
        env!("CARGO_CRATE_NAME"),
        Kind::Pool(|server| Arc::new(open(server))),
        (!long::is_asked_for()).then_some(PLAIN),
    )
}

fn open(server: SocketAddr) -> SqlxPool {
    let options = PgConnectOptions::new_without_pgpass()
        .host(&server.ip().to_string())
        .port(server.port())
        .username("postgres")
        .database("postgres");
    SqlxPool::new(PgPoolOptions::new().max_connections(POOLED).connect_lazy_with(options))
}
