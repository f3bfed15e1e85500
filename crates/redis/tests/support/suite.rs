//! Runs the conformance suite with a server alone for each case.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Arguments, Fixture, HANDOFFS};
use lockkeeper_core::BoxFuture;
use lockkeeper_faults::long;
use lockkeeper_faults::redis::{self, Flush, Release, Setup};
use lockkeeper_trials::fixture::{CASES_AT_ONCE, failed};

use crate::fixture::RedisFixture;

/// What the suite runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suite {
    pub(crate) release: Release,
    /// The way in which servers flush the log of their writes (AOF), if they keep one.
    pub(crate) log: Option<Flush>,
    /// Whether clients have `layout=setnx`.
    pub(crate) is_setnx: bool,
    /// What the names of the cases have in them that the plain run has, if it has not all.
    pub(crate) plain: Option<&'static str>,
}

impl Suite {
    /// Debian's servers, which keep nothing.
    pub(crate) const DEBIAN: Self = Self { release: Release::Debian, log: None, is_setnx: false, plain: None };

    /// Runs it, or skips the whole binary by its name.
    pub(crate) fn run(self, binary: &str) -> ExitCode {
        if !redis::availability_of(self.release).or_skip(binary) {
            return ExitCode::SUCCESS;
        }
        static SUITE: OnceLock<Suite> = OnceLock::new();
        SUITE.set(self).expect("set once");
        let mut arguments = Arguments::from_args();
        arguments.test_threads.get_or_insert(CASES_AT_ONCE);
        if !long::is_asked_for() {
            arguments.filter = arguments.filter.or_else(|| self.plain.map(str::to_owned));
        }
        let start = || -> BoxFuture<lockkeeper_core::Result<Arc<dyn Fixture>>> {
            Box::pin(async {
                // The harness's futures stay on one thread.
                let runtime = tokio::runtime::Handle::current();
                let Self { release, log, is_setnx, .. } = *SUITE.get().expect("just set");
                let mut setup = Setup::new().release(release);
                if let Some(flush) = log {
                    setup = setup.append_only(flush);
                }
                let starting = tokio::task::spawn_blocking(move || runtime.block_on(setup.start()));
                let server = starting.await.expect("no panic").map_err(failed)?;
                Ok(Arc::new(RedisFixture::new(server, log.is_some(), is_setnx)) as Arc<dyn Fixture>)
            })
        };
        let handoffs = if self.is_setnx || !long::is_asked_for() { &HANDOFFS[..1] } else { &HANDOFFS };
        suite::run_under(&arguments, start, handoffs)
    }
}
