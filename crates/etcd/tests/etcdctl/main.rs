//! One queue with the real `etcdctl`, in both directions. It is a separate binary, since it has long rounds.

mod counting;
mod etcdctl;
mod following;
mod operating;
#[path = "../support/service.rs"]
mod service;
mod turns;

use std::net::SocketAddr;

use lockkeeper_conformance::SOON;
use lockkeeper_faults::wait;
use lockkeeper_recipes::Keeper;

/// A keeper whose locks are shared with `etcdctl`.
fn keeper(address: SocketAddr) -> Keeper {
    service::ETCD.keeper(&[address], "layout=etcdctl&session_timeout=30s")
}

/// Waits until so many contenders stand in a queue, theirs and ours.
async fn until_contenders(keeper: &Keeper, lock: &str, count: usize) {
    let look = async || (keeper.contenders(lock).await.expect("a look").len() == count).then_some(());
    wait::until(&format!("{count} contenders of {lock}"), SOON, look).await.expect("they come");
}

/// Waits until a file is there.
async fn until_there(path: &std::path::Path) {
    let look = async || path.exists().then_some(());
    wait::until(&path.display().to_string(), SOON, look).await.expect("it comes");
}
