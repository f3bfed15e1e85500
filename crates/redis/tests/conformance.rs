//! The conformance suite on real Redis, Debian's: a server alone for each case, without persistence.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/server.rs"]
mod server;

use std::process::ExitCode;
use std::sync::Arc;

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Arguments, Fixture};

use crate::fixture::RedisFixture;
use crate::server::Server;

/// How many cases run at once: most of a case's time is a wait for the end of a session.
const CASES_AT_ONCE: usize = 4;

fn main() -> ExitCode {
    if !server::is_available() {
        eprintln!("skipped: there is no redis-server");
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    suite::run(&arguments, || {
        Box::pin(async {
            let starting = tokio::task::spawn_blocking(Server::start);
            let server = starting.await.expect("no panic");
            Ok(Arc::new(RedisFixture::new(server)) as Arc<dyn Fixture>)
        })
    })
}
