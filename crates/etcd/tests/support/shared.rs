//! Runs the suite on a service that all cases share, each below a separate base.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Arguments, Fixture, HANDOFFS};
use lockkeeper_core::BoxFuture;
use lockkeeper_faults::etcd::{self, Release};
use lockkeeper_faults::long;
use lockkeeper_trials::fixture::CASES_AT_ONCE;
use tokio::sync::Mutex;

use crate::fixture::{EtcdFixture, Naming, Service};

/// Starts a service of a release, and runs the suite on it, or skips the whole binary by its name. The plain run has
/// the cases with `plain` in their names.
pub(crate) fn run<Servers: Service + 'static>(
    binary: &str,
    release: Release,
    plain: Option<&str>,
    start: impl AsyncFnOnce() -> lockkeeper_faults::Result<Servers>,
) -> ExitCode {
    if !etcd::availability_of(release).or_skip(binary) {
        return ExitCode::SUCCESS;
    }
    static SERVICE: OnceLock<Arc<Mutex<dyn Service>>> = OnceLock::new();
    static CASES: AtomicU64 = AtomicU64::new(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let service = runtime.block_on(start()).expect("a service");
    SERVICE.set(Arc::new(Mutex::new(service))).expect("set once");
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    if !long::is_asked_for() {
        arguments.filter = arguments.filter.or_else(|| plain.map(str::to_owned));
    }
    let start = || -> BoxFuture<lockkeeper_core::Result<Arc<dyn Fixture>>> {
        let service = SERVICE.get().expect("just set").clone();
        Box::pin(async {
            let base = format!("/case-{}", CASES.fetch_add(1, Ordering::Relaxed));
            Ok(Arc::new(EtcdFixture::new(service, true, base, Naming::Ours).await) as Arc<dyn Fixture>)
        })
    };
    let handoffs = if !long::is_asked_for() { &HANDOFFS[..1] } else { &HANDOFFS };
    suite::run_under(&arguments, start, handoffs)
}
