//! Many commands on each service: fifty count, twenty are served in the order they joined, while servers are killed and
//! restarted, replaced, or give their locks to another one.

use lockkeeper_faults::{long, zookeeper};

use crate::services::{Server, Service, on_each};
use crate::site::{Change, SETTINGS, Site};
use crate::zookeeper::{nodes, setup};

/// How often in a row, on the same ensemble of ZooKeeper, in the long run.
const ROUNDS_LONG: u32 = 10;

/// How many have counted when a server is killed.
const BEFORE: usize = 5;

fn site(server: &Server) -> Site {
    Site::of(&format!("{}?{SETTINGS}", server.url()))
}

async fn fifty(service: Service, server: Server) {
    site(&server).fifty_count(service.name());
}

async fn twenty(_: Service, server: Server) {
    site(&server).twenty_in_order_over(async |_| ()).await;
}

on_each! { fifty:
    PostgreSql "postgres" fifty_commands_count_on_postgresql_without_losing_one;
    MariaDb "mysql" fifty_commands_count_on_mariadb_without_losing_one;
}

on_each! { twenty:
    PostgreSql "postgres" twenty_commands_are_served_on_postgresql_in_the_order_they_joined;
    MariaDb "mysql" twenty_commands_are_served_on_mariadb_in_the_order_they_joined;
}

/// What a fleet does meanwhile.
#[derive(Clone, Copy)]
enum Fleet {
    Counts,
    IsServedInOrder,
}

impl Fleet {
    async fn play(self, site: &Site, who: &str, change: impl AsyncFnMut(Change)) {
        match self {
            Self::Counts => site.fifty_count_over(who, BEFORE, change).await,
            Self::IsServedInOrder => site.twenty_in_order_over(change).await,
        }
    }
}

/// Which server is killed.
#[derive(Clone, Copy)]
enum Victim {
    Leader,
    Follower,
}

/// Plays while a server of ZooKeeper's ensemble is killed and restarted.
async fn on_zookeeper(fleet: Fleet, victim: Victim) {
    if !Service::ZooKeeper.can_start() {
        return;
    }
    let mut ensemble = zookeeper::Ensemble::start(3, setup()).await.expect("an ensemble");
    for _ in 0..long::rounds(ROUNDS_LONG) {
        let site = Site::of(&format!("zk://{}?{SETTINGS}&tick=500ms", ensemble.connect_string()));
        let mut killed = 0;
        let change = async |change| {
            if change == Change::Begins {
                killed = match victim {
                    Victim::Leader => ensemble.leader().await.unwrap(),
                    Victim::Follower => ensemble.follower().await.unwrap(),
                };
                return ensemble.server_mut(killed).kill();
            }
            ensemble.server_mut(killed).start().unwrap();
            ensemble.server_mut(killed).serving().await.unwrap();
        };
        fleet.play(&site, "ZooKeeper, a server killed", change).await;
        let leader = ensemble.leader().await.unwrap();
        assert_eq!(nodes(&ensemble.servers()[leader]).await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_without_losing_one_while_a_follower_of_zookeeper_is_killed_and_restarted() {
    on_zookeeper(Fleet::Counts, Victim::Follower).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_without_losing_one_while_the_leader_of_zookeeper_is_killed_and_restarted() {
    on_zookeeper(Fleet::Counts, Victim::Leader).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_commands_are_served_in_the_order_they_joined_while_the_leader_of_zookeeper_is_killed_and_restarted() {
    on_zookeeper(Fleet::IsServedInOrder, Victim::Leader).await;
}

/// Plays while the leader of an etcd cluster is killed and restarted.
#[cfg(feature = "etcd")]
async fn on_etcd(fleet: Fleet) {
    use crate::etcd_access::{assert_nothing_left, cluster, cluster_site};
    if !Service::Etcd.can_start() {
        return;
    }
    let mut cluster = cluster().await;
    // Long enough for an election, and for commands that are started fifty at once; and short, since a request to a
    // member without a leader is given up after a part of it.
    let site = cluster_site(&cluster, "session_timeout=10s");
    let mut killed = 0;
    let change = async |change| {
        if change == Change::Begins {
            killed = cluster.leader().await.unwrap();
            return cluster.server_mut(killed).kill();
        }
        cluster.server_mut(killed).start().unwrap();
        cluster.serving().await.unwrap();
    };
    fleet.play(&site, "etcd, the leader killed", change).await;
    assert_nothing_left(&cluster, &site).await;
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_without_losing_one_while_the_leader_of_etcd_is_killed_and_restarted() {
    on_etcd(Fleet::Counts).await;
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn twenty_commands_are_served_in_the_order_they_joined_while_the_leader_of_etcd_is_killed_and_restarted() {
    on_etcd(Fleet::IsServedInOrder).await;
}

#[cfg(feature = "redis")]
mod on_redis {
    use lockkeeper_faults::redis::{self, Cluster, Flush, Release, Sentinels, Server, Setup};
    use lockkeeper_faults::wait;

    use super::*;
    use crate::site::{COUNTING, SOON};
    use crate::support::can_run;

    /// How many have counted when the service changes.
    const HALF: usize = COUNTING / 2;

    #[tokio::test(flavor = "multi_thread")]
    async fn fifty_commands_count_without_losing_one_on_each_release() {
        for release in Release::ALL {
            if can_run(redis::availability_of(release)) {
                let server = Setup::new().release(release).start().await.expect("a server");
                let site = Site::of(&format!("redis://{}?{SETTINGS}", server.address()));
                site.fifty_count(&format!("Redis, {release:?}"));
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn twenty_commands_are_served_in_the_order_they_joined_though_the_server_is_killed_and_restarted() {
        if !Service::Redis.can_start() {
            return;
        }
        let mut server = Setup::new().append_only(Flush::Always).start().await.expect("a server");
        let site = Site::of(&format!("redis://{}?{SETTINGS}", server.address()));
        let change = async |change| {
            if change == Change::Begins {
                server.kill();
                server.start().expect("it starts again");
                server.serving().await.expect("it serves again");
            }
        };
        site.twenty_in_order_over(change).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fifty_commands_count_without_losing_one_while_sentinels_replace_the_master() {
        if !can_run(redis::sentinel_availability()) {
            return;
        }
        let service = Sentinels::start(1).await.expect("sentinels");
        let hosts: Vec<_> = service.addresses().iter().map(ToString::to_string).collect();
        let site = Site::of(&format!("redis+sentinel://{}/{}?{SETTINGS}", hosts.join(","), Sentinels::MASTER));
        let change = async |change| {
            if change == Change::Ends {
                return;
            }
            let master = service.failover().await.expect("a failover");
            // The old master goes on taking writes for a while, and those are lost.
            let master = &service.servers()[master];
            wait::until("the commands at the new master", SOON, async || {
                let clients: String = master.ask(&["CLIENT", "LIST"]).await.ok()?;
                (clients.matches("name=lockkeeper").count() >= HALF).then_some(())
            })
            .await
            .expect("they come");
        };
        site.fifty_count_over("Redis, a failover", HALF, change).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fifty_commands_count_without_losing_one_while_the_slot_of_a_cluster_moves() {
        if !Service::Redis.can_start() {
            return;
        }
        let cluster = Cluster::start().await.expect("a cluster");
        let slot = cluster.slot_of("{lockkeeper}").await.expect("a slot");
        let owner = cluster.owner(slot).await.expect("it is served");
        let hosts: Vec<_> = cluster.addresses().iter().map(ToString::to_string).collect();
        let site = Site::of(&format!("redis://{}?{SETTINGS}", hosts.join(",")));
        let change = async |change| {
            if change == Change::Begins {
                cluster.move_slot(slot, (owner + 1) % hosts.len()).await.expect("the slot moves");
            }
        };
        site.fifty_count_over("Redis, a slot that moves", HALF, change).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fifty_commands_that_wait_for_a_copy_of_each_join_count_without_losing_one() {
        if !Service::Redis.can_start() {
            return;
        }
        let master = Server::standalone().await.expect("a server");
        let _replica = Setup::new().replica_of(&master).start().await.expect("a replica");
        let is_heard_of = async || master.info("slave0").await.ok().filter(|replica| replica.contains("state=online"));
        wait::until("the replica", SOON, is_heard_of).await.expect("it is heard of");
        let site = Site::of(&format!("redis://{}?replicas=1&{SETTINGS}", master.address()));
        site.fifty_count("Redis, a copy of each join");
    }
}
