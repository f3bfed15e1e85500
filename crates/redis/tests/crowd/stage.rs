//! Sessions, entries, and what the server says of its work.

use std::net::SocketAddr;
use std::sync::Arc;

use libtest_mimic::Failed;
use lockkeeper_core::Session;
use lockkeeper_faults::redis::Server;

use crate::service::REDIS;

/// Long enough for thousands of calls that are made at once, each behind the other, on a busy machine.
pub(crate) const SETTINGS: &str = "session_timeout=60s&operation_timeout=240s";

pub(crate) async fn session(address: SocketAddr, settings: &str) -> Result<Arc<dyn Session>, Failed> {
    Ok(REDIS.backend(&[address], settings).session().await?)
}

/// How often a command was called, and how many microseconds the server has worked on it, since its start.
pub(crate) async fn work(server: &Server, command: &str) -> Result<(u64, u64), Failed> {
    let text: String = server.ask(&["INFO", "commandstats"]).await?;
    let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_")?.strip_prefix(command)?.strip_prefix(':'));
    let Some(line) = line else {
        return Ok((0, 0));
    };
    let number = |name: &str| {
        let field = line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        field.and_then(|number| number.trim().parse().ok()).ok_or_else(|| format!("{line} has no {name}"))
    };
    Ok((number("calls")?, number("usec")?))
}
