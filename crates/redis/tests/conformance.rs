//! The conformance suite on real Redis, Debian's: a server alone for each case, without persistence.

#[path = "support/fixture.rs"]
mod fixture;

use std::process::ExitCode;
use std::sync::Arc;

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Arguments, Fixture};
use lockkeeper_faults::redis::{self, Server};

use crate::fixture::RedisFixture;

/// How many cases run at once: most of a case's time is a wait for the end of a session.
const CASES_AT_ONCE: usize = 4;

fn main() -> ExitCode {
    if !redis::availability().or_skip("conformance") {
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    suite::run(&arguments, || {
        Box::pin(async {
            // The harness's futures stay on one thread.
            let runtime = tokio::runtime::Handle::current();
            let starting = tokio::task::spawn_blocking(move || runtime.block_on(Server::standalone()));
            let server = starting.await.expect("no panic").map_err(fixture::failed)?;
            Ok(Arc::new(RedisFixture::new(server)) as Arc<dyn Fixture>)
        })
    })
}
