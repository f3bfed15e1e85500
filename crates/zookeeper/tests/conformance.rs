//! The conformance suite on real Apache ZooKeeper: one server alone.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/shared.rs"]
mod shared;
#[path = "support/sniff.rs"]
mod sniff;

use std::net::SocketAddr;
use std::pin::Pin;
use std::process::ExitCode;

use fixture::{Service, TICK};
use lockkeeper_faults::Result;
use lockkeeper_faults::zookeeper::{Server, Setup};

impl Service for Server {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address()]
    }

    fn restart(&mut self) -> Pin<Box<dyn Future<Output = Result<()>> + '_>> {
        Box::pin(async { Self::restart(self).await.map(|_| ()) })
    }
}

fn main() -> ExitCode {
    shared::run("conformance", async || Server::standalone(Setup::new().tick(TICK)).await.expect("a server"))
}
