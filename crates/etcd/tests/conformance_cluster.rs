//! The conformance suite on a cluster of three, Debian's, which all cases share.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/operator.rs"]
mod operator;
#[path = "support/shared.rs"]
mod shared;

use std::net::SocketAddr;
use std::process::ExitCode;

use lockkeeper_faults::etcd::{Cluster, Release};

use crate::fixture::{Acting, Service};

impl Service for Cluster {
    fn addresses(&self) -> Vec<SocketAddr> {
        Self::addresses(self)
    }

    fn restart(&mut self) -> Acting<'_> {
        Box::pin(Self::restart(self))
    }

    fn wipe(&mut self) -> Acting<'_> {
        Box::pin(Self::wipe(self))
    }

    fn pause(&mut self) -> lockkeeper_faults::Result<()> {
        (0..self.servers().len()).try_for_each(|index| self.server_mut(index).pause())
    }

    fn resume(&mut self) -> lockkeeper_faults::Result<()> {
        (0..self.servers().len()).try_for_each(|index| self.server_mut(index).resume())
    }
}

fn main() -> ExitCode {
    shared::run("conformance_cluster", Release::Debian, None, async || Cluster::start(Release::Debian, 3).await)
}
