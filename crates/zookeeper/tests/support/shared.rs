//! The suite on servers of Apache's, which take so long to start that all cases share them.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Fixture, HANDOFFS};
use lockkeeper_core::BoxFuture;
use lockkeeper_faults::long;
use lockkeeper_faults::zookeeper;
use lockkeeper_trials::fixture::CASES_AT_ONCE;
use tokio::sync::Mutex;

use crate::fixture::{Service, Shared, ZooKeeperFixture};

/// Starts the service and runs the suite on it, some cases at a time, each below its own path.
pub(crate) fn run<Servers: Service + 'static>(test: &str, start: impl AsyncFnOnce() -> Servers) -> ExitCode {
    static SERVICE: OnceLock<Shared> = OnceLock::new();
    if !zookeeper::availability().or_skip(test) {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let service = runtime.block_on(start());
    SERVICE.set(Arc::new(Mutex::new(service))).expect("set once");
    let mut arguments = suite::Arguments::from_args();
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    let start = || -> BoxFuture<lockkeeper_core::Result<Arc<dyn Fixture>>> {
        let service = SERVICE.get().expect("just set").clone();
        Box::pin(async { Ok(Arc::new(ZooKeeperFixture::start(service).await?) as Arc<dyn Fixture>) })
    };
    let handoffs = if !long::is_asked_for() { &HANDOFFS[..1] } else { &HANDOFFS };
    suite::run_under(&arguments, start, handoffs)
}
