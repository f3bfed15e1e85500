//! Contenders that depend on no lease: which of them are listed, that a newcomer wins, and what an examination says.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Remnant, RemnantKind, Severity, Wait};
use lockkeeper_faults::etcd::Server;
use lockkeeper_recipes::{Keeper, LockKind};

use crate::client::{backend, can_run};
use crate::keys::{contenders, put};

async fn remnants(keeper: &Keeper) -> Vec<Remnant> {
    soon("the remnants", keeper.remnants(Duration::ZERO)).await.expect("they are listed")
}

#[tokio::test]
async fn a_contender_without_a_lease_and_a_reason_is_listed_and_removed_if_nobody_writes_it() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let address = server.address();
    let keeper = Keeper::new(Arc::new(backend(address, "")));
    let held = keeper.mutex("door").unwrap().lock().await.unwrap();
    assert!(keeper.freeze("ice", LockKind::Mutex, "disks", Wait::Forever).await.unwrap().is_some());
    assert!(remnants(&keeper).await.is_empty(), "one has a lease, the other a reason");
    let [left] = contenders(address, "door").await.try_into().expect("one stands there");
    held.release().await.unwrap();
    put(address, &left).await;

    let [found] = remnants(&keeper).await.try_into().expect("one is listed");
    assert_eq!((found.kind, found.lock.as_ref().map(|lock| lock.as_str())), (RemnantKind::Unbound, Some("door")));
    assert!(found.place.starts_with("/lockkeeper/q/door/"), "{found:?}");
    let findings = soon("the findings", keeper.examine()).await.unwrap();
    let told = findings.iter().find(|finding| finding.what.contains("blocks its lock for ever"));
    assert_eq!(told.map(|told| told.severity), Some(Severity::Error), "{findings:?}");
    assert!(keeper.mutex("door").unwrap().try_lock().await.unwrap().is_none(), "it blocks");

    put(address, &left).await;
    assert!(!keeper.remove_remnant(&found).await.unwrap(), "it was written since");
    assert_eq!(contenders(address, "door").await, [left]);
    let [found] = remnants(&keeper).await.try_into().expect("one is listed");
    assert!(keeper.remove_remnant(&found).await.unwrap());
    assert!(!keeper.remove_remnant(&found).await.unwrap(), "it is removed once");
    assert!(keeper.mutex("door").unwrap().try_lock().await.unwrap().is_some());
    assert_eq!(contenders(address, "ice").await.len(), 1);
}
