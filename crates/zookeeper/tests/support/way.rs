//! The way to a server: whether there can be one, its URL, and a client past all keepers.

use std::net::SocketAddr;

use lockkeeper_core::ServiceUrl;
use lockkeeper_faults::zookeeper;
use lockkeeper_zookeeper::{Client, Config};

/// Whether real servers can be started; if not, the test is skipped by name.
pub fn can_start(test: &str) -> bool {
    super::bench::IS_EMBEDDED || zookeeper::availability().or_skip(test)
}

pub fn config(address: SocketAddr, settings: &str) -> Config {
    Config::from_url(&url(address, settings)).expect("a good URL")
}

pub fn url(address: SocketAddr, settings: &str) -> ServiceUrl {
    format!("zk://{address}{settings}").parse().expect("a good URL")
}

pub async fn client(address: SocketAddr) -> Client {
    Client::connect(&config(address, "")).await.expect("a session")
}
