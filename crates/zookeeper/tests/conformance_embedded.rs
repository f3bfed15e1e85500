//! The conformance suite on the embedded server, which starts so fast that each case has its own.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/sniff.rs"]
mod sniff;

use std::net::SocketAddr;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use fixture::{Service, TICK, ZooKeeperFixture};
use lockkeeper_conformance::{Arguments, Fixture, HANDOFFS};
use lockkeeper_core::BoxFuture;
use lockkeeper_faults::{Result, long};
use lockkeeper_zk_server::EmbeddedServer;
use tokio::sync::Mutex;

impl Service for EmbeddedServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address().expect("it listens")]
    }

    fn restart(&mut self) -> Pin<Box<dyn Future<Output = Result<()>> + '_>> {
        Box::pin(async {
            Self::restart(self).await;
            Ok(())
        })
    }
}

fn main() -> ExitCode {
    let start = || -> BoxFuture<lockkeeper_core::Result<Arc<dyn Fixture>>> {
        Box::pin(async {
            let server = EmbeddedServer::builder().tick(TICK).start().await.expect("a server");
            let fixture = ZooKeeperFixture::start(Arc::new(Mutex::new(server))).await?;
            Ok(Arc::new(fixture) as Arc<dyn Fixture>)
        })
    };
    let handoffs = if long::is_asked_for() { &HANDOFFS } else { &HANDOFFS[..1] };
    lockkeeper_conformance::run_under(&Arguments::from_args(), start, handoffs)
}
