//! Runs the suite with a server for each case, which takes a fifth of a second to start.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Arguments, Fixture, HANDOFFS};
use lockkeeper_core::BoxFuture;
use lockkeeper_faults::etcd::{Release, Server};
use lockkeeper_faults::long;
use tokio::sync::Mutex;

use crate::fixture::{CASES_AT_ONCE, EtcdFixture, Naming};
use crate::operator::failed;

/// Runs it on servers of this release.
pub(crate) fn run(mut arguments: Arguments, release: Release, naming: Naming) -> ExitCode {
    static HOW: OnceLock<(Release, Naming)> = OnceLock::new();
    HOW.set((release, naming)).expect("set once");
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    let start = || -> BoxFuture<lockkeeper_core::Result<Arc<dyn Fixture>>> {
        Box::pin(async {
            // The harness's futures stay on one thread.
            let runtime = tokio::runtime::Handle::current();
            let (release, naming) = *HOW.get().expect("just set");
            let starting = tokio::task::spawn_blocking(move || runtime.block_on(Server::standalone_of(release)));
            let server = starting.await.expect("no panic").map_err(failed)?;
            let service = Arc::new(Mutex::new(server));
            Ok(Arc::new(EtcdFixture::new(service, false, "/lockkeeper".to_owned(), naming).await) as Arc<dyn Fixture>)
        })
    };
    let handoffs = if !long::is_asked_for() { &HANDOFFS[..1] } else { &HANDOFFS };
    suite::run_under(&arguments, start, handoffs)
}
