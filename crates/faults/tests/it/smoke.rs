//! The harness of ZooKeeper against the real thing: it needs Java, Debian's packages and root, and skips without.

use std::time::Duration;

use lockkeeper_faults::proxy::Operation;
use lockkeeper_faults::wait::{self, PATIENCE};
use lockkeeper_faults::zookeeper::{Ensemble, Role, Setup};
use lockkeeper_faults::{namespaces, zookeeper};
use tokio::time;

use crate::raw::{self, RawClient};

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_cut_off_from_its_peers_is_still_reached_by_its_clients() {
    if !zookeeper::availability().and(namespaces::availability).or_skip_here() {
        return;
    }
    let network = namespaces::Network::new(3).expect("a network");
    // A short tick, so that elections and isolation take only seconds.
    let setup = Setup::new().tick(Duration::from_millis(500));
    let ensemble = Ensemble::start_in(&network, setup).await.expect("an ensemble");
    let cut_off = ensemble.follower().await.expect("a follower");
    let leader = ensemble.leader().await.expect("a leader");
    let server = &ensemble.servers()[cut_off];
    let mut client = RawClient::connect(server.address()).await.expect("a session");

    network.isolate(cut_off).expect("cut");
    // A ping is answered by the follower itself, and a write goes nowhere.
    client.send(-2, Operation::PING, &[]).await.expect("its own link stands");
    assert_eq!(client.reply().await.expect("its own link stands"), (-2, 0));
    client.send(1, Operation::CREATE2, &raw::create("/lost", 0)).await.expect("sent");
    assert!(time::timeout(Duration::from_millis(500), client.reply()).await.is_err(), "no quorum hears of it");
    wait::until("the follower giving up", PATIENCE, async || server.role().await.is_err().then_some(()))
        .await
        .expect("after its sync limit");
    assert_eq!(server.four_letter_word("ruok").await.as_deref(), Ok("imok"), "clients still reach it");
    let mut elsewhere = RawClient::connect(ensemble.servers()[leader].address()).await.expect("a session");
    elsewhere.send(1, Operation::CREATE2, &raw::create("/kept", 0)).await.expect("sent");
    assert_eq!(elsewhere.reply().await.expect("two of three are a quorum"), (1, 0));

    network.heal(cut_off).expect("healed");
    wait::until("the follower following again", PATIENCE, async || {
        (server.role().await == Ok(Role::Follower)).then_some(())
    })
    .await
    .expect("healed");
}
