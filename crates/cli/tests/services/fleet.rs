//! Fifty commands count on each service, also while a leader is killed and restarted, or a master replaced.

use lockkeeper_faults::{long, zookeeper};

use crate::services::{Server, Service, on_each};
use crate::site::{Change, SETTINGS, Site};
use crate::zookeeper::{nodes, setup};

/// How often in a row, on the same ensemble of ZooKeeper, in the long run.
const ROUNDS_LONG: u32 = 10;

/// How many have counted when a server is killed.
const BEFORE: usize = 5;

async fn fifty(service: Service, server: Server) {
    Site::of(&format!("{}?{SETTINGS}", server.url())).fifty_count(service.name());
}

on_each! { fifty:
    PostgreSql "postgres" fifty_commands_count_on_postgresql_without_losing_one;
    MariaDb "mysql" fifty_commands_count_on_mariadb_without_losing_one;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_without_losing_one_while_the_leader_of_zookeeper_is_killed_and_restarted() {
    if !Service::ZooKeeper.can_start() {
        return;
    }
    let mut ensemble = zookeeper::Ensemble::start(3, setup()).await.expect("an ensemble");
    for _ in 0..long::rounds(ROUNDS_LONG) {
        let site = Site::of(&format!("zk://{}?{SETTINGS}&tick=500ms", ensemble.connect_string()));
        let mut killed = 0;
        let change = async |change| {
            if change == Change::Begins {
                killed = ensemble.leader().await.unwrap();
                return ensemble.server_mut(killed).kill();
            }
            ensemble.server_mut(killed).start().unwrap();
            ensemble.server_mut(killed).serving().await.unwrap();
        };
        site.fifty_count_over("ZooKeeper, the leader killed", BEFORE, change).await;
        let leader = ensemble.leader().await.unwrap();
        assert_eq!(nodes(&ensemble.servers()[leader]).await, [""; 0]);
    }
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_without_losing_one_while_the_leader_of_etcd_is_killed_and_restarted() {
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
    site.fifty_count_over("etcd, the leader killed", BEFORE, change).await;
    assert_nothing_left(&cluster, &site).await;
}
