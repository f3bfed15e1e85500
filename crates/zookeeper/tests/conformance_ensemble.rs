//! The conformance suite on real Apache ZooKeeper: an ensemble of three.

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
use lockkeeper_faults::zookeeper::{Ensemble, Setup};

impl Service for Ensemble {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.servers().iter().map(|server| server.address()).collect()
    }

    fn restart(&mut self) -> Pin<Box<dyn Future<Output = Result<()>> + '_>> {
        Box::pin(async {
            let count = self.servers().len();
            for index in 0..count {
                self.server_mut(index).stop().await;
            }
            for index in 0..count {
                self.server_mut(index).start()?;
            }
            self.serving().await
        })
    }
}

fn main() -> ExitCode {
    let start = async || Ensemble::start(3, Setup::new().tick(TICK)).await.expect("an ensemble");
    shared::run("conformance_ensemble", start)
}
