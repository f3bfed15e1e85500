//! Runs the conformance suite with servers that go from case to case.

#[path = "database.rs"]
mod database;
#[path = "fixture.rs"]
mod fixture;
#[path = "server.rs"]
mod server;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Arguments, Fixture, HANDOFFS};
use lockkeeper_core::BoxFuture;
use lockkeeper_faults::lending::Servers;
use lockkeeper_faults::long;
use lockkeeper_trials::fixture::{CASES_AT_ONCE, failed};

use self::fixture::SqlFixture;
pub(crate) use self::server::Kind;
use self::server::Server;

/// Those that no case has.
static SERVERS: Servers<Server> = Servers::new();

/// Runs it on servers of this kind: all cases, or those with this in their names.
pub(crate) fn run(binary: &str, kind: Kind, only: Option<&str>) -> ExitCode {
    static KIND: OnceLock<Kind> = OnceLock::new();
    if !kind.availability().or_skip(binary) {
        return ExitCode::SUCCESS;
    }
    KIND.set(kind).expect("set once");
    let mut arguments = Arguments::from_args();
    if let Some(only) = only {
        arguments.filter.get_or_insert_with(|| only.to_owned());
    }
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    let start = || -> BoxFuture<lockkeeper_core::Result<Arc<dyn Fixture>>> {
        Box::pin(async {
            // The harness's futures stay on one thread.
            let runtime = tokio::runtime::Handle::current();
            let &kind = KIND.get().expect("just set");
            let starting = tokio::task::spawn_blocking(move || runtime.block_on(without_schema(kind)));
            let server = starting.await.expect("no panic").map_err(failed)?;
            Ok(Arc::new(SqlFixture::new(kind, SERVERS.lend(server))) as Arc<dyn Fixture>)
        })
    };
    let handoffs = if !long::is_asked_for() { &HANDOFFS[..1] } else { &HANDOFFS };
    let code = suite::run_under(&arguments, start, handoffs);
    SERVERS.clear();
    code
}

/// A server without anything of ours: one that another case has had, or a new one.
async fn without_schema(kind: Kind) -> lockkeeper_faults::Result<Server> {
    if let Some(mut server) = SERVERS.take() {
        // A case that failed may have left it standing still, or without a process.
        if server.database.resume().is_ok() && server.wipe().await.is_ok() {
            return Ok(server);
        }
    }
    Server::start(kind).await
}
