//! Servers of Apache's, and a simulated machine that uses them.

use std::time::Duration;

use lockkeeper_faults::zookeeper::{Server, Setup};

pub(crate) use crate::machine::{ALL_DEAD, COUNT, NOTE, Running, SOON, Site};

/// The servers' tick: short, so that sessions and elections take seconds.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// Whether real servers can be started; if not, the test is skipped by name.
pub(crate) fn can_start(test: &str) -> bool {
    lockkeeper_faults::zookeeper::availability().or_skip(test)
}

/// Settings for a site whose sessions are not what the test is about: they live on where the machine stands still.
pub(crate) const LONG: &str = "?session_timeout=40s&tick=500ms";

/// Servers of this tick that do not count how many clients one machine has: here it stands for a whole fleet. They
/// grant [`LONG`] sessions.
pub(crate) fn setup() -> Setup {
    Setup::new().tick(TICK).entry("maxClientCnxns", "0").entry("maxSessionTimeout", "40000")
}

pub(crate) async fn server() -> Server {
    Server::standalone(setup()).await.expect("a server")
}

/// A server that grants twenty ticks at most, as it is without an entry for that.
pub(crate) async fn server_of_twenty_ticks() -> Server {
    Server::standalone(Setup::new().tick(TICK)).await.expect("a server")
}

impl Site {
    /// `servers` as in a URL, `settings` from the question mark on.
    pub(crate) fn new(servers: &str, settings: &str) -> Self {
        Self::of(&format!("zk://{servers}{settings}"))
    }
}

/// The ephemeral nodes that a server knows.
pub(crate) async fn nodes(server: &Server) -> Vec<String> {
    server.ephemerals().await.unwrap().into_iter().map(|(_, path)| path).collect()
}
