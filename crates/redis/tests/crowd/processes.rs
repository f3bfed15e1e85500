//! Ten processes whose waiters stand in one queue.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::process::{ChildStdout, Stdio};
use std::sync::Arc;
use std::time::Instant;

use libtest_mimic::Failed;
use lockkeeper_conformance::crowd::{ASKED, LOCK};
use lockkeeper_core::FencingToken;
use lockkeeper_faults::process::{self, Process};
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::{figures, long};
use lockkeeper_recipes::Keeper;
use lockkeeper_redis::RedisBackend;

use crate::stage::SETTINGS;

const PROCESSES: usize = 10;

/// How many wait in all; the plain run has a tenth.
const WAITERS: u32 = 10_000;

/// How much memory of its process a waiter may take, in bytes.
const WAITER_BYTES_MAX: usize = 20_000;

/// How much memory of the server a waiter may take, in bytes: its record with an owner's name, its entries in the queue
/// and the session, and the two records that are watched for it.
const SERVER_BYTES_MAX: usize = 4_000;

/// One of the processes, and what it says.
struct Member {
    said: Lines<BufReader<ChildStdout>>,
    _process: Process,
}

impl Member {
    fn start(url: &str, waiters: usize, grants: &str) -> Result<Self, Failed> {
        let mut command = process::command(std::env::current_exe()?);
        command.env(ASKED, format!("{url} {waiters} {grants}")).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process::start(command)?;
        let output = process.take_stdout().ok_or("it has an output")?;
        Ok(Self { said: BufReader::new(output).lines(), _process: process })
    }

    /// Waits until it says this, and returns the number behind it.
    fn says(&mut self, what: &str) -> Result<usize, Failed> {
        let line = self.said.next().ok_or_else(|| format!("a process ended before it was {what}"))??;
        let number = line.strip_prefix(what).and_then(|number| number.trim().parse().ok());
        number.ok_or_else(|| format!("{line:?} instead of {what:?}").into())
    }
}

pub(crate) fn in_order() -> Result<(), Failed> {
    let runtime = tokio::runtime::Runtime::new()?;
    let server = runtime.block_on(Server::standalone())?;
    let count = usize::try_from(long::rounds(WAITERS))? / PROCESSES * PROCESSES;
    let folder = tempfile::tempdir()?;
    let grants = folder.path().join("grants");
    fs::write(&grants, "")?;
    let url = format!("redis://{}{SETTINGS}", server.address());
    let keeper = Keeper::new(Arc::new(RedisBackend::open(&url.parse()?)?));
    let mutex = keeper.mutex(LOCK)?;
    let holder = runtime.block_on(mutex.lock())?;
    let server_before = runtime.block_on(used_bytes(&server))?;
    let crowd = queue_up_and_drain(&runtime, holder, count, &url, &grants.display().to_string(), &server)?;
    let tokens = tokens(&fs::read_to_string(&grants)?)?;
    let server_bytes = crowd.server_bytes.saturating_sub(server_before) / count;
    figures::tell(&format!(
        "crowd: {count} waiters of {PROCESSES} processes joined in {:.1} s and were served in order in {:.1} s; \
         a waiter takes {} bytes of its process and {server_bytes} of the server",
        crowd.joined, crowd.drained, crowd.bytes,
    ));
    assert_eq!(tokens.len(), count, "each was granted the lock once");
    assert!(tokens.is_sorted_by(|one, next| one < next), "in the order of the queue");
    assert_eq!(crowd.retries, 0, "joins or waits that had to begin anew");
    assert!(crowd.bytes <= WAITER_BYTES_MAX, "{} bytes of its process are more than {WAITER_BYTES_MAX}", crowd.bytes);
    assert!(server_bytes <= SERVER_BYTES_MAX, "{server_bytes} bytes of the server are more than {SERVER_BYTES_MAX}");
    runtime.block_on(async {
        assert!(keeper.contenders(LOCK).await?.is_empty(), "all have left");
        keeper.close().await
    })?;
    Ok(())
}

/// What it took.
struct Crowd {
    joined: f64,
    drained: f64,
    bytes: usize,
    retries: usize,
    server_bytes: usize,
}

#[expect(clippy::disallowed_methods, reason = "a test measures how long the crowd takes")]
fn queue_up_and_drain(
    runtime: &tokio::runtime::Runtime,
    holder: lockkeeper_recipes::MutexGuard,
    count: usize,
    url: &str,
    grants: &str,
    server: &Server,
) -> Result<Crowd, Failed> {
    let begun = Instant::now();
    let members: Result<Vec<_>, _> = (0..PROCESSES).map(|_| Member::start(url, count / PROCESSES, grants)).collect();
    let mut members = members?;
    let mut bytes = 0;
    for member in &mut members {
        bytes = bytes.max(member.says("joined")?);
    }
    let (joined, server_bytes) = (begun.elapsed(), runtime.block_on(used_bytes(server))?);
    runtime.block_on(holder.release())?;
    let mut retries = 0;
    for member in &mut members {
        retries += member.says("done")?;
    }
    let drained = begun.elapsed() - joined;
    Ok(Crowd { joined: joined.as_secs_f64(), drained: drained.as_secs_f64(), bytes, retries, server_bytes })
}

fn tokens(grants: &str) -> Result<Vec<FencingToken>, Failed> {
    grants.lines().map(|line| line.parse().map_err(|_| format!("{line:?} is no token").into())).collect()
}

/// What the server has in memory, by its own account.
async fn used_bytes(server: &Server) -> Result<usize, Failed> {
    Ok(server.info("used_memory").await?.parse()?)
}
