//! The harness against the real things: each test needs Java, Debian's packages, PyPI or root, and skips by name
//! without.

use std::fs;
use std::time::Duration;

use lockkeeper_faults::peers::{Kind, curator, kazoo};
use lockkeeper_faults::proxy::{Direction, Operation, Proxy};
use lockkeeper_faults::wait::{self, PATIENCE};
use lockkeeper_faults::zookeeper::{Ensemble, Role, Server, Setup};
use lockkeeper_faults::{namespaces, zookeeper};
use tokio::time;

use crate::raw::{self, RawClient};

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// How often each of two peers counts: enough that two peers that do not exclude each other always lose counts.
const ROUNDS: u32 = 60;

/// A short tick, so that sessions, elections and isolation take only seconds.
fn quick() -> Setup {
    Setup::new().tick(Duration::from_millis(500))
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_kazoo_count_one_file_up_together_through_the_proxy() {
    if !curator::availability().and(kazoo::availability).or_skip_here() {
        return;
    }
    let Some(server) = Server::start_or_skip(quick()).await else { return };
    let proxy = Proxy::start(server.address()).await.expect("a proxy");
    let connect = proxy.address().to_string();
    let (curator, kazoo) =
        tokio::join!(curator::start(&connect, SESSION_TIMEOUT), kazoo::start(&connect, SESSION_TIMEOUT));
    let (mut curator, mut kazoo) = (curator.expect("Curator"), kazoo.expect("kazoo"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut counted = Vec::new();
    for (kind, path) in [(Kind::MixedMutex, "/mixed"), (Kind::Mutex, "/apart")] {
        let file = folder.path().join("counter");
        fs::write(&file, "0").expect("written");
        let (first, second) = tokio::join!(
            curator.count(kind, path, &file, ROUNDS, PATIENCE),
            kazoo.count(kind, path, &file, ROUNDS, PATIENCE)
        );
        first.and(second).expect("both counted");
        let number: u32 = fs::read_to_string(&file).expect("there").trim().parse().expect("a number");
        counted.push(number);
    }
    assert_eq!(counted[0], 2 * ROUNDS, "told of each other, they exclude each other");
    assert!(counted[1] < 2 * ROUNDS, "not told, they do not, and the file shows it: {}", counted[1]);
    assert!(proxy.count(Direction::ToServer, Operation::DELETE) >= u64::from(4 * ROUNDS));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_cut_off_from_its_peers_is_still_reached_by_its_clients() {
    if !zookeeper::availability().and(namespaces::availability).or_skip_here() {
        return;
    }
    let network = namespaces::Network::new(3).expect("a network");
    let ensemble = Ensemble::start_in(&network, quick()).await.expect("an ensemble");
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
