//! Ten processes whose waiters stand in one queue.

use std::time::Duration;

use libtest_mimic::Failed;
use lockkeeper_faults::redis::{Flush, Server, Setup};
use lockkeeper_trials::crowd::Crowd;
use lockkeeper_trials::outage;
use tokio::runtime::Runtime;

use crate::service::REDIS;
use crate::stage::SETTINGS;

/// How many wait in all in the long run.
const WAITERS: u32 = 10_000;

/// How much memory of the server a waiter may take, in bytes: its record with an owner's name, its entries in the queue
/// and the session, and the two records that are watched for it.
const SERVER_BYTES_MAX: usize = 4_000;

pub(crate) fn in_order() -> Result<(), Failed> {
    let runtime = Runtime::new()?;
    let server = runtime.block_on(Server::standalone())?;
    let crowd = Crowd {
        service: &REDIS,
        servers: &[server.address()],
        settings: SETTINGS,
        waiters: WAITERS,
        server_bytes: &|| runtime.block_on(used_bytes(&server)),
        server_bytes_max: SERVER_BYTES_MAX,
    };
    crowd.in_order()
}

pub(crate) fn outage() -> Result<(), Failed> {
    let mut server = Runtime::new()?.block_on(Setup::new().append_only(Flush::Always).start())?;
    outage::live_through("redis", &REDIS, &mut server, Duration::ZERO)
}

/// What the server has in memory, by its own account.
async fn used_bytes(server: &Server) -> Result<usize, Failed> {
    Ok(server.info("used_memory").await?.parse()?)
}
