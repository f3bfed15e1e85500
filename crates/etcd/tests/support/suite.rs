//! Runs the suite: on a server for each case, or on a service that all cases share.
#![allow(dead_code, reason = "each suite runs in one of the ways")]

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Arguments, Fixture};
use lockkeeper_faults::etcd::{Release, Server};
use tokio::sync::Mutex;

use crate::fixture::{EtcdFixture, Naming, Service};
use crate::operator::failed;

/// How many cases run at once: most of a case's time is a wait for the end of a session.
const CASES_AT_ONCE: usize = 4;

/// Runs it with a server of this release for each case, which takes a fifth of a second to start.
pub(crate) fn run_alone(mut arguments: Arguments, release: Release, naming: Naming) -> ExitCode {
    static HOW: OnceLock<(Release, Naming)> = OnceLock::new();
    HOW.set((release, naming)).expect("set once");
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    suite::run(&arguments, || {
        Box::pin(async {
            // The harness's futures stay on one thread.
            let runtime = tokio::runtime::Handle::current();
            let (release, naming) = *HOW.get().expect("just set");
            let starting = tokio::task::spawn_blocking(move || runtime.block_on(Server::standalone_of(release)));
            let server = starting.await.expect("no panic").map_err(failed)?;
            Ok(Arc::new(EtcdFixture::alone(server, naming)) as Arc<dyn Fixture>)
        })
    })
}

/// Starts a service and runs the suite on it, some cases at a time, each below its own base.
pub(crate) fn run_shared<Servers: Service + 'static>(
    mut arguments: Arguments,
    start: impl AsyncFnOnce() -> Servers,
) -> ExitCode {
    static SERVICE: OnceLock<Arc<Mutex<dyn Service>>> = OnceLock::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let service = runtime.block_on(start());
    SERVICE.set(Arc::new(Mutex::new(service))).expect("set once");
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    suite::run(&arguments, || {
        let service = SERVICE.get().expect("just set").clone();
        Box::pin(async { Ok(Arc::new(EtcdFixture::beside(service).await) as Arc<dyn Fixture>) })
    })
}
