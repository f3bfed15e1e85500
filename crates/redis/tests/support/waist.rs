//! What the tests share: clients, sessions and entries.
#![allow(dead_code, reason = "each test binary uses another part")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lockkeeper_core::{Backend, Entry, Extent, Freshness, Mode, Owner, QueueName, Session, Ticket};
use lockkeeper_faults::redis;
use lockkeeper_redis::RedisBackend;

/// How long anything may take that should take no time.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Whether the test that asks may go on; if not, it is skipped by the name that the harness gave to its thread.
pub(crate) fn can_run() -> bool {
    redis::availability().or_skip(thread::current().name().expect("the harness names the thread of a test"))
}

pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what} did not come within {SOON:?}"))
}

pub(crate) fn backend(address: SocketAddr, settings: &str) -> RedisBackend {
    RedisBackend::open(&format!("redis://{address}{settings}").parse().expect("a URL")).expect("a good URL")
}

pub(crate) async fn session(backend: &dyn Backend) -> Arc<dyn Session> {
    soon("a session", backend.session()).await.expect("a session")
}

pub(crate) fn door() -> QueueName {
    QueueName::new("door").expect("a name")
}

pub(crate) fn entry(ticket: Ticket) -> Entry {
    Entry::new(ticket, Mode::Mutex, Arc::new(Owner::new("somewhere", 1, "something")))
}

pub(crate) fn ticket() -> Ticket {
    Ticket::mint().expect("randomness")
}

/// The tickets in the queue `door`, in their order.
pub(crate) async fn tickets(session: &dyn Session) -> Vec<Option<Ticket>> {
    let viewing = session.view(&door(), Freshness::Latest, Extent::Whole);
    let view = soon("a view", viewing).await.expect("a view");
    view.contenders.iter().map(|contender| contender.ticket).collect()
}
