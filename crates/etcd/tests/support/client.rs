//! What all tests of a binary begin with: whether they can run, a client, and a bound for each wait.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use lockkeeper_etcd::EtcdBackend;
use lockkeeper_faults::etcd;

/// How long anything may take that should take no time.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Whether the test that asks may go on; if not, it is skipped by the name that the harness gave to its thread.
pub(crate) fn can_run() -> bool {
    etcd::availability().or_skip(thread::current().name().expect("the harness names the thread of a test"))
}

pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what} did not come within {SOON:?}"))
}

pub(crate) fn backend(address: SocketAddr, settings: &str) -> EtcdBackend {
    EtcdBackend::open(&format!("etcd://{address}{settings}").parse().expect("a URL")).expect("a good URL")
}
