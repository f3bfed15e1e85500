//! Ten processes whose waiters stand in one queue.

use std::fs;
use std::time::Duration;

use libtest_mimic::Failed;
use lockkeeper_faults::etcd::Server;
use lockkeeper_trials::crowd::Crowd;
use lockkeeper_trials::outage;
use tokio::runtime::Runtime;

use crate::service::ETCD;

/// How many wait in all in the long run.
const WAITERS: u32 = 10_000;

/// How much memory of the server a waiter may take, in bytes: its key with an owner's name, a lease's entry and two
/// watches. What a server that runs without compaction keeps of what went before comes on top.
const SERVER_BYTES_MAX: usize = 40_000;

/// Long enough for thousands of calls of one process that are made at once, each behind the other, on a busy machine.
pub(crate) const SETTINGS: &str = "session_timeout=60s&operation_timeout=240s";

pub(crate) fn in_order() -> Result<(), Failed> {
    let server = Runtime::new()?.block_on(Server::standalone())?;
    let crowd = Crowd {
        service: &ETCD,
        servers: &[server.address()],
        settings: SETTINGS,
        waiters: WAITERS,
        server_bytes: &|| resident_bytes(&server),
        server_bytes_max: SERVER_BYTES_MAX,
    };
    crowd.in_order()
}

pub(crate) fn outage() -> Result<(), Failed> {
    let mut server = Runtime::new()?.block_on(Server::standalone())?;
    outage::live_through("etcd", &ETCD, &mut server, Duration::ZERO)
}

/// What the server has in memory.
fn resident_bytes(server: &Server) -> Result<usize, Failed> {
    let pid = server.pid().ok_or("the server runs")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the kernel says so")?;
    Ok(kilobytes.trim().trim_end_matches("kB").trim().parse::<usize>()? * 1_024)
}
