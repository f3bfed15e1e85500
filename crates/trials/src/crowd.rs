//! Ten processes whose waiters stand in one queue, and are granted the lock in its order.
//!
//! What a process does, [`lockkeeper_conformance::crowd`] has; a test binary's `main` begins with it.

use std::fs;
use std::net::SocketAddr;
use std::time::Instant;

use libtest_mimic::Failed;
use lockkeeper_conformance::crowd::{ASKED, LOCK};
use lockkeeper_core::FencingToken;
use lockkeeper_faults::{figures, long};
use tokio::runtime::Runtime;

use crate::Service;
use crate::members::Members;

/// How many processes there are.
pub const PROCESSES: usize = 10;

/// How much memory of its process a waiter may take, in bytes.
const WAITER_BYTES_MAX: usize = 20_000;

/// The file of the grants, in its folder.
const GRANTS: &str = "grants";

/// A crowd, and what the server may spend on it.
#[expect(missing_debug_implementations, reason = "it borrows a closure")]
pub struct Crowd<'a> {
    /// How its clients are made.
    pub service: &'a Service,
    /// Where the server is.
    pub servers: &'a [SocketAddr],
    /// Its clients' settings.
    pub settings: &'a str,
    /// How many wait in all in the long run; the plain one has a tenth.
    pub waiters: u32,
    /// What the server has in memory now, in bytes.
    pub server_bytes: &'a dyn Fn() -> Result<usize, Failed>,
    /// How much memory of the server a waiter may take, in bytes.
    pub server_bytes_max: usize,
}

impl Crowd<'_> {
    /// Has all queue up behind a holder and then serves them: each once, in the order of the queue, and none begins
    /// anew.
    #[expect(clippy::disallowed_methods, reason = "a test measures how long the crowd takes")]
    pub fn in_order(&self) -> Result<(), Failed> {
        let runtime = Runtime::new()?;
        let keeper = self.service.keeper(self.servers, self.settings);
        let holder = runtime.block_on(keeper.mutex(LOCK)?.lock())?;
        let server_before = (self.server_bytes)()?;
        let begun = Instant::now();
        let mut waiters = Waiters::start(&(self.service.url)(self.servers, self.settings), self.waiters)?;
        let bytes = waiters.say("joined")?.into_iter().max().unwrap_or(0);
        let (joined, server_after) = (begun.elapsed(), (self.server_bytes)()?);
        runtime.block_on(holder.release())?;
        let retries: usize = waiters.say("done")?.into_iter().sum();
        let (drained, count) = (begun.elapsed() - joined, waiters.count);
        let server_bytes = server_after.saturating_sub(server_before) / count;
        figures::tell(&format!(
            "crowd: {count} waiters of {PROCESSES} processes joined in {:.1} s and were served in order in {:.1} s; \
             a waiter takes {bytes} bytes of its process and {server_bytes} of the server",
            joined.as_secs_f64(),
            drained.as_secs_f64(),
        ));
        waiters.check_grants()?;
        assert_eq!(retries, 0, "joins or waits that had to begin anew");
        assert!(bytes <= WAITER_BYTES_MAX, "{bytes} bytes of its process are more than {WAITER_BYTES_MAX}");
        let server_bytes_max = self.server_bytes_max;
        assert!(
            server_bytes <= server_bytes_max,
            "{server_bytes} bytes of the server are more than {server_bytes_max}"
        );
        runtime.block_on(async {
            assert!(keeper.contenders(LOCK).await?.is_empty(), "all have left");
            keeper.close().await
        })?;
        Ok(())
    }
}

/// The processes, and the file of their grants.
pub(crate) struct Waiters {
    members: Members,
    /// How many wait in all.
    pub(crate) count: usize,
}

impl Waiters {
    /// Starts them with so many waiters in all in the long run; the plain one has a tenth.
    pub(crate) fn start(url: &str, waiters: u32) -> Result<Self, Failed> {
        let count = usize::try_from(long::rounds(waiters))? / PROCESSES * PROCESSES;
        let mut members = Members::none()?;
        let grants = members.file(GRANTS);
        fs::write(&grants, "")?;
        let asked = format!("{url} {} {}", count / PROCESSES, grants.display());
        (0..PROCESSES).try_for_each(|_| members.start(ASKED, &asked))?;
        Ok(Self { members, count })
    }

    /// Waits until all say this, and returns the numbers behind it.
    pub(crate) fn say(&mut self, what: &str) -> Result<Vec<usize>, Failed> {
        self.members.say(what)
    }

    pub(crate) fn grants(&self) -> Result<String, Failed> {
        Ok(fs::read_to_string(self.members.file(GRANTS))?)
    }

    /// Asserts that each waiter was granted the lock once, in the order of the queue.
    pub(crate) fn check_grants(&self) -> Result<(), Failed> {
        let mut tokens: Vec<FencingToken> = Vec::new();
        for line in self.grants()?.lines() {
            tokens.push(line.parse().map_err(|_| format!("{line:?} is no token"))?);
        }
        assert_eq!(tokens.len(), self.count, "each was granted the lock once");
        assert!(tokens.is_sorted_by(|one, next| one < next), "in the order of the queue");
        Ok(())
    }
}
