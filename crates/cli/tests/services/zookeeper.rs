//! Servers of Apache's, as the tests of one service want them.

use std::time::Duration;

use lockkeeper_faults::zookeeper::{Server, Setup};
use lockkeeper_zookeeper::{Client, Config};

use crate::services::Service;
use crate::site::Site;

/// The servers' tick: short, so that sessions and elections take seconds.
const TICK: Duration = Duration::from_millis(500);

/// Settings for a site whose sessions are not what the test is about: they live on where the machine stands still.
pub(crate) const LONG: &str = "?session_timeout=40s&tick=500ms";

/// Servers of this tick that do not count how many clients one machine has: here it stands for a whole fleet. They
/// grant [`LONG`] sessions.
pub(crate) fn setup() -> Setup {
    Setup::new().tick(TICK).entry("maxClientCnxns", "0").entry("maxSessionTimeout", "40000")
}

/// A server; `None` where none can be started, and the test is skipped.
pub(crate) async fn server() -> Option<Server> {
    start(setup()).await
}

/// A server that grants twenty ticks at most, as it is without an entry for that.
pub(crate) async fn server_of_twenty_ticks() -> Option<Server> {
    start(Setup::new().tick(TICK)).await
}

async fn start(setup: Setup) -> Option<Server> {
    if !Service::ZooKeeper.can_start() {
        return None;
    }
    Some(Server::standalone(setup).await.expect("a server"))
}

/// A machine that uses a server; `settings` from the question mark on.
pub(crate) fn site(server: &Server, settings: &str) -> Site {
    Site::of(&format!("zk://{}{settings}", server.address()))
}

/// A separate client; `user` with the mark behind it.
pub(crate) async fn client(server: &Server, user: &str) -> Client {
    let url = format!("zk://{user}{}", server.address());
    Client::connect(&Config::from_url(&url.parse().unwrap()).unwrap()).await.unwrap()
}

/// The ephemeral nodes that a server knows.
pub(crate) async fn nodes(server: &Server) -> Vec<String> {
    server.ephemerals().await.unwrap().into_iter().map(|(_, path)| path).collect()
}
