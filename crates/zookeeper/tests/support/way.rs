//! The way to a server: its URL, a keeper of it, and a client past all keepers.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::Party;
use lockkeeper_core::ServiceUrl;
use lockkeeper_recipes::retry::RetryPolicy;
use lockkeeper_zookeeper::{Client, Config, ZooKeeperBackend};

/// The URL of these servers, with what follows them.
pub(crate) fn url(servers: impl Display, settings: &str) -> ServiceUrl {
    format!("zk://{servers}{settings}").parse().expect("a URL")
}

pub(crate) fn config(servers: impl Display, settings: &str) -> Config {
    Config::from_url(&url(servers, settings)).expect("a good URL")
}

/// A keeper of these servers, which tries again sooner than by default.
pub(crate) fn party(servers: impl Display, settings: &str) -> Party {
    let backend = ZooKeeperBackend::open(&url(servers, settings)).expect("a good URL");
    Party::over(Arc::new(backend), RetryPolicy::forever(Duration::from_millis(50), Duration::from_millis(500)))
}

pub(crate) async fn client(servers: impl Display, settings: &str) -> Client {
    Client::connect(&config(servers, settings)).await.expect("a session")
}
