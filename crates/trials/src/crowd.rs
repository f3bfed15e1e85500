//! Ten processes whose waiters stand in one queue, and are granted the lock in its order.
//!
//! What a process does, [`lockkeeper_conformance::crowd`] has; a test binary's `main` begins with it.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::process::{ChildStdout, Stdio};
use std::time::Instant;

use libtest_mimic::Failed;
use lockkeeper_conformance::crowd::{ASKED, LOCK};
use lockkeeper_core::FencingToken;
use lockkeeper_faults::process::{self, Process};
use lockkeeper_faults::{figures, long};
use lockkeeper_recipes::MutexGuard;
use tokio::runtime::Runtime;

use crate::Service;

/// How many processes there are.
pub const PROCESSES: usize = 10;

/// How much memory of its process a waiter may take, in bytes.
const WAITER_BYTES_MAX: usize = 20_000;

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
    pub fn in_order(&self) -> Result<(), Failed> {
        let runtime = Runtime::new()?;
        let count = usize::try_from(long::rounds(self.waiters))? / PROCESSES * PROCESSES;
        let folder = tempfile::tempdir()?;
        let grants = folder.path().join("grants");
        fs::write(&grants, "")?;
        let keeper = self.service.keeper(self.servers, self.settings);
        let mutex = keeper.mutex(LOCK)?;
        let holder = runtime.block_on(mutex.lock())?;
        let server_before = (self.server_bytes)()?;
        let took = self.queue_up_and_drain(&runtime, holder, count, &grants.display().to_string())?;
        let tokens = tokens(&fs::read_to_string(&grants)?)?;
        let server_bytes = took.server_bytes.saturating_sub(server_before) / count;
        figures::tell(&format!(
            "crowd: {count} waiters of {PROCESSES} processes joined in {:.1} s and were served in order in {:.1} s; \
             a waiter takes {} bytes of its process and {server_bytes} of the server",
            took.joined, took.drained, took.bytes,
        ));
        assert_eq!(tokens.len(), count, "each was granted the lock once");
        assert!(tokens.is_sorted_by(|one, next| one < next), "in the order of the queue");
        assert_eq!(took.retries, 0, "joins or waits that had to begin anew");
        let (bytes, server_bytes_max) = (took.bytes, self.server_bytes_max);
        assert!(bytes <= WAITER_BYTES_MAX, "{bytes} bytes of its process are more than {WAITER_BYTES_MAX}");
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

    #[expect(clippy::disallowed_methods, reason = "a test measures how long the crowd takes")]
    fn queue_up_and_drain(
        &self,
        runtime: &Runtime,
        holder: MutexGuard,
        count: usize,
        grants: &str,
    ) -> Result<Took, Failed> {
        let url = (self.service.url)(self.servers, self.settings);
        let begun = Instant::now();
        let members: Result<Vec<_>, _> =
            (0..PROCESSES).map(|_| Member::start(&url, count / PROCESSES, grants)).collect();
        let mut members = members?;
        let mut bytes = 0;
        for member in &mut members {
            bytes = bytes.max(member.says("joined")?);
        }
        let (joined, server_bytes) = (begun.elapsed(), (self.server_bytes)()?);
        runtime.block_on(holder.release())?;
        let mut retries = 0;
        for member in &mut members {
            retries += member.says("done")?;
        }
        let drained = begun.elapsed() - joined;
        Ok(Took { joined: joined.as_secs_f64(), drained: drained.as_secs_f64(), bytes, retries, server_bytes })
    }
}

struct Took {
    /// In seconds.
    joined: f64,
    /// In seconds.
    drained: f64,
    bytes: usize,
    retries: usize,
    server_bytes: usize,
}

/// One of the processes, and what it says.
pub(crate) struct Member {
    said: Lines<BufReader<ChildStdout>>,
    _process: Process,
}

impl Member {
    pub(crate) fn start(url: &str, waiters: usize, grants: &str) -> Result<Self, Failed> {
        let mut command = process::command(std::env::current_exe()?);
        command.env(ASKED, format!("{url} {waiters} {grants}")).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process::start(command)?;
        let output = process.take_stdout().ok_or("it has an output")?;
        Ok(Self { said: BufReader::new(output).lines(), _process: process })
    }

    /// Waits until it says this, and returns the number behind it.
    pub(crate) fn says(&mut self, what: &str) -> Result<usize, Failed> {
        let line = self.said.next().ok_or_else(|| format!("a process ended before it was {what}"))??;
        let number = line.strip_prefix(what).and_then(|number| number.trim().parse().ok());
        number.ok_or_else(|| format!("{line:?} instead of {what:?}").into())
    }
}

pub(crate) fn tokens(grants: &str) -> Result<Vec<FencingToken>, Failed> {
    grants.lines().map(|line| line.parse().map_err(|_| format!("{line:?} is no token").into())).collect()
}
