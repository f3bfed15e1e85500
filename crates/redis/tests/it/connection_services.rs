//! Services of several servers: sentinels that replace the master, and a cluster whose slots move.

use std::sync::Arc;

use lockkeeper_faults::redis::{Cluster, Sentinels};
use lockkeeper_recipes::{Keeper, MutexGuard};
use lockkeeper_redis::RedisBackend;

use crate::support::{SOON, can_run, soon};

fn keeper(url: &str) -> Keeper {
    Keeper::new(Arc::new(RedisBackend::open(&url.parse().expect("a URL")).expect("a good URL")))
}

async fn lock(keeper: &Keeper) -> MutexGuard {
    let lock = keeper.mutex("door").expect("a name");
    soon("the lock", async { lock.lock().await.expect("the lock is granted") }).await
}

#[tokio::test]
async fn a_lock_is_taken_before_and_after_a_failover_with_growing_tokens() {
    if !can_run() {
        return;
    }
    let service = Sentinels::start(1).await.expect("sentinels");
    let hosts: Vec<_> = service.addresses().iter().map(ToString::to_string).collect();
    let keeper = keeper(&format!("redis+sentinel://{}/{}?session_timeout=4s", hosts.join(","), Sentinels::MASTER));
    let before = lock(&keeper).await;
    let token = before.fencing_token();
    service.failover().await.expect("a failover");
    soon("the release", before.release()).await.ok();
    let after = lock(&keeper).await;
    assert!(after.fencing_token() > token, "{} after {token}", after.fencing_token());
    soon("the release", after.release()).await.expect("it is given back");
}

#[tokio::test]
async fn a_lock_in_a_cluster_goes_on_when_its_slot_moves() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::start().await.expect("a cluster");
    let slot = cluster.slot_of("{lockkeeper}").await.expect("a slot");
    let owner = cluster.owner(slot).await.expect("it is served");
    let keepers: Vec<_> =
        cluster.addresses().iter().map(|address| keeper(&format!("redis://{address}?session_timeout=6s"))).collect();
    let mut token = None;
    for keeper in &keepers {
        let guard = lock(keeper).await;
        assert_eq!(soon("a look", keeper.contenders("door")).await.expect("a look").len(), 1);
        assert!(token < Some(guard.fencing_token()));
        token = Some(guard.fencing_token());
        soon("the release", guard.release()).await.expect("it is given back");
    }
    let held = lock(&keepers[0]).await;
    cluster.move_slot(slot, (owner + 1) % 3).await.expect("the slot moves");
    let found = async || {
        let contenders = keepers[1].contenders("door").await.ok()?;
        (contenders.len() == 1).then_some(())
    };
    lockkeeper_faults::wait::until("a look at the new place", SOON, found).await.expect("it is found");
    assert!(held.hold().is_held(), "the hold goes on");
    soon("the release", held.release()).await.expect("it is given back");
    for keeper in &keepers {
        let guard = lock(keeper).await;
        soon("the release", guard.release()).await.expect("it is given back");
    }
}
