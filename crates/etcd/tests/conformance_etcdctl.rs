//! The conformance suite on Debian's etcd, with the names that `etcdctl` gives its contenders: as far as the kinds of
//! lock go that both have. Their keys have no base, so each case has a server alone, which takes a fifth of a second to
//! start.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/operator.rs"]
mod operator;

use std::process::ExitCode;
use std::sync::Arc;

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Arguments, Fixture, HANDOFFS};
use lockkeeper_core::BoxFuture;
use lockkeeper_faults::etcd::{self, Server};
use lockkeeper_faults::long;
use lockkeeper_trials::fixture::{CASES_AT_ONCE, failed};
use tokio::sync::Mutex;

use crate::fixture::{EtcdFixture, Naming};

fn main() -> ExitCode {
    if !etcd::availability().or_skip("conformance_etcdctl") {
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    let start = || -> BoxFuture<lockkeeper_core::Result<Arc<dyn Fixture>>> {
        Box::pin(async {
            // The harness's futures stay on one thread.
            let runtime = tokio::runtime::Handle::current();
            let starting = tokio::task::spawn_blocking(move || runtime.block_on(Server::standalone()));
            let server = starting.await.expect("no panic").map_err(failed)?;
            let (service, base) = (Arc::new(Mutex::new(server)), "/lockkeeper".to_owned());
            Ok(Arc::new(EtcdFixture::new(service, false, base, Naming::Etcdctl).await) as Arc<dyn Fixture>)
        })
    };
    let handoffs = if !long::is_asked_for() { &HANDOFFS[..1] } else { &HANDOFFS };
    suite::run_under(&arguments, start, handoffs)
}
