//! Clients of Redis.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_recipes::Keeper;
use lockkeeper_redis::RedisBackend;

pub(crate) fn open(url: &str) -> RedisBackend {
    RedisBackend::open(&url.parse().expect("a URL")).expect("a good URL")
}

pub(crate) fn backend(address: SocketAddr, settings: &str) -> RedisBackend {
    open(&format!("redis://{address}{settings}"))
}

pub(crate) fn keeper(address: SocketAddr, settings: &str) -> Keeper {
    Keeper::new(Arc::new(backend(address, settings)))
}
