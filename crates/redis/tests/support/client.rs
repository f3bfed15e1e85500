//! What the tests share: whether they can run, and clients.

use std::net::SocketAddr;
use std::thread;

use lockkeeper_faults::redis;
use lockkeeper_redis::RedisBackend;

/// Whether the test that asks may go on; if not, it is skipped by the name that the harness gave to its thread.
pub(crate) fn can_run() -> bool {
    redis::availability().or_skip(thread::current().name().expect("the harness names the thread of a test"))
}

pub(crate) fn backend(address: SocketAddr, settings: &str) -> RedisBackend {
    RedisBackend::open(&format!("redis://{address}{settings}").parse().expect("a URL")).expect("a good URL")
}
