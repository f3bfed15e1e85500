//! What all tests of a binary begin with: whether they can run, and a client.

use std::net::SocketAddr;
use std::thread;

use lockkeeper_etcd::EtcdBackend;
use lockkeeper_faults::etcd;

/// Whether the test that asks may go on; if not, it is skipped by the name that the harness gave to its thread.
pub(crate) fn can_run() -> bool {
    etcd::availability().or_skip(thread::current().name().expect("the harness names the thread of a test"))
}

pub(crate) fn backend(address: SocketAddr, settings: &str) -> EtcdBackend {
    EtcdBackend::open(&format!("etcd://{address}{settings}").parse().expect("a URL")).expect("a good URL")
}
