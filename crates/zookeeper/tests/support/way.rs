//! The way to a server: its URL, and a client past all keepers.

use std::fmt::Display;

use lockkeeper_core::ServiceUrl;
use lockkeeper_zookeeper::{Client, Config};

/// The URL of these servers, with what follows them.
pub(crate) fn url(servers: impl Display, settings: &str) -> ServiceUrl {
    format!("zk://{servers}{settings}").parse().expect("a URL")
}

pub(crate) fn config(servers: impl Display, settings: &str) -> Config {
    Config::from_url(&url(servers, settings)).expect("a good URL")
}

pub(crate) async fn client(servers: impl Display, settings: &str) -> Client {
    Client::connect(&config(servers, settings)).await.expect("a session")
}
