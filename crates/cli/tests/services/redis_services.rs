//! Many commands on services of several servers, most of which change meanwhile.

use lockkeeper_faults::redis::{Cluster, Sentinels, Server, Setup, sentinel_availability};
use lockkeeper_faults::wait;

use crate::machine::SOON;
use crate::site::{HALF_COUNTING, SETTINGS, can_start, fifty_count, fifty_count_over};

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_without_losing_one_while_sentinels_replace_the_master() {
    let test = "services::fifty_commands_count_without_losing_one_while_sentinels_replace_the_master";
    if !sentinel_availability().or_skip(test) {
        return;
    }
    let service = Sentinels::start(1).await.expect("sentinels");
    let hosts: Vec<_> = service.addresses().iter().map(ToString::to_string).collect();
    let url = format!("redis+sentinel://{}/{}?{SETTINGS}", hosts.join(","), Sentinels::MASTER);
    fifty_count_over(&url, "a failover", async || {
        let master = service.failover().await.expect("a failover");
        // The old master goes on taking writes for a while, and those are lost.
        let master = &service.servers()[master];
        wait::until("the commands at the new master", SOON, async || {
            let clients: String = master.ask(&["CLIENT", "LIST"]).await.ok()?;
            (clients.matches("name=lockkeeper").count() >= HALF_COUNTING).then_some(())
        })
        .await
        .expect("they come");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_without_losing_one_while_the_slot_of_a_cluster_moves() {
    if !can_start("services::fifty_commands_count_without_losing_one_while_the_slot_of_a_cluster_moves") {
        return;
    }
    let cluster = Cluster::start().await.expect("a cluster");
    let slot = cluster.slot_of("{lockkeeper}").await.expect("a slot");
    let owner = cluster.owner(slot).await.expect("it is served");
    let hosts: Vec<_> = cluster.addresses().iter().map(ToString::to_string).collect();
    let url = format!("redis://{}?{SETTINGS}", hosts.join(","));
    fifty_count_over(&url, "a slot that moves", async || {
        cluster.move_slot(slot, (owner + 1) % hosts.len()).await.expect("the slot moves");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_that_wait_for_a_copy_of_each_join_count_without_losing_one() {
    if !can_start("services::fifty_commands_that_wait_for_a_copy_of_each_join_count_without_losing_one") {
        return;
    }
    let master = Server::standalone().await.expect("a server");
    let _replica = Setup::new().replica_of(&master).start().await.expect("a replica");
    let is_heard_of = async || master.info("slave0").await.ok().filter(|replica| replica.contains("state=online"));
    wait::until("the replica", SOON, is_heard_of).await.expect("it is heard of");
    fifty_count(&format!("redis://{}?replicas=1&{SETTINGS}", master.address()), "a copy of each join");
}
