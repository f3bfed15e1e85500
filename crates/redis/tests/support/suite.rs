//! Runs the conformance suite with a server alone for each case.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Arguments, Fixture, HANDOFFS};
use lockkeeper_core::BoxFuture;
use lockkeeper_faults::long;
use lockkeeper_faults::redis::{Flush, Release, Setup};

use crate::fixture::{RedisFixture, failed};

/// How many cases run at once: most of a case's time is a wait for the end of a session.
const CASES_AT_ONCE: usize = 4;

/// Runs it on servers of this release, which keep a log of their writes (AOF) if there is a way to flush it, and with
/// `layout=setnx` if that is asked for.
pub(crate) fn run(mut arguments: Arguments, release: Release, log: Option<Flush>, is_setnx: bool) -> ExitCode {
    static HOW: OnceLock<(Release, Option<Flush>, bool)> = OnceLock::new();
    HOW.set((release, log, is_setnx)).expect("set once");
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    let start = || -> BoxFuture<lockkeeper_core::Result<Arc<dyn Fixture>>> {
        Box::pin(async {
            // The harness's futures stay on one thread.
            let runtime = tokio::runtime::Handle::current();
            let &(release, log, is_setnx) = HOW.get().expect("just set");
            let mut setup = Setup::new().release(release);
            if let Some(flush) = log {
                setup = setup.append_only(flush);
            }
            let starting = tokio::task::spawn_blocking(move || runtime.block_on(setup.start()));
            let server = starting.await.expect("no panic").map_err(failed)?;
            Ok(Arc::new(RedisFixture::new(server, log.is_some(), is_setnx)) as Arc<dyn Fixture>)
        })
    };
    let handoffs = if is_setnx || !long::is_asked_for() { &HANDOFFS[..1] } else { &HANDOFFS };
    suite::run_under(&arguments, start, handoffs)
}
