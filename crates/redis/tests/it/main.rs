//! Tests beyond the common suites of Redis: users and their rights, databases, services of several servers, servers
//! that are none, what an examination finds, and what a follower is told.

mod examining;
mod following;
mod services;
mod sessions;
mod users;

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
