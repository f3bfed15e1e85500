//! The harness against the real things: each test needs Java, Debian's packages, PyPI or root, and skips by name
//! without.

use std::fs;
use std::io::ErrorKind;
use std::time::Duration;

use lockkeeper_faults::peers::{Kind, curator, kazoo};
use lockkeeper_faults::proxy::{AfterDrop, Direction, Operation, Proxy};
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
async fn a_standalone_server_serves_and_keeps_its_data_when_killed() {
    if !zookeeper::availability().or_skip("smoke::a_standalone_server_serves_and_keeps_its_data_when_killed") {
        return;
    }
    let mut server = Server::standalone(quick()).await.expect("a server");
    assert_eq!(server.four_letter_word("ruok").await.as_deref(), Ok("imok"));
    assert_eq!(server.role().await, Ok(Role::Standalone));
    let mut client = RawClient::connect(server.address()).await.expect("a session");
    for (xid, path, flags) in [(1, "/stays", 0), (2, "/mine", 1)] {
        let body = raw::create(path, flags);
        client.send(xid, Operation::CREATE2, &body).await.expect("sent");
        assert_eq!(client.reply().await.expect("a reply"), (xid, 0));
    }
    let session = client.session;
    assert_eq!(server.ephemerals().await, Ok(vec![(session, "/mine".to_owned())]));
    let connections = server.connections().await.expect("cons");
    let ours = connections.iter().find(|found| found.session == Some(session));
    // The two creates; the connect request is counted before there is a session.
    assert!(ours.is_some_and(|found| found.packets.received >= 2), "{connections:?}");
    assert_eq!(server.watches().await, Ok(0));
    assert!(server.metric("zk_znode_count").await.expect("mntr") >= 7.0);

    server.kill();
    assert!(server.four_letter_word("ruok").await.is_err());
    server.start().expect("the same port");
    server.serving().await.expect("the same data");
    let mut client = RawClient::connect(server.address()).await.expect("a session");
    client.send(1, Operation::EXISTS, &raw::exists("/stays")).await.expect("sent");
    assert_eq!(client.reply().await.expect("a reply"), (1, 0));
    server.restart().await.expect("stopped and started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_answers_once_it_goes_on() {
    if !zookeeper::availability().or_skip("smoke::a_paused_server_answers_once_it_goes_on") {
        return;
    }
    let mut server = Server::standalone(quick()).await.expect("a server");
    let before = server.packets().await.expect("srvr").received;
    server.pause().expect("running");
    let asked = time::timeout(Duration::from_millis(300), server.four_letter_word("srvr")).await;
    assert!(asked.is_err());
    server.resume().expect("paused");
    assert!(server.packets().await.expect("srvr").received > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_reply_is_lost_took_effect() {
    if !zookeeper::availability().or_skip("smoke::a_create_whose_reply_is_lost_took_effect") {
        return;
    }
    let server = Server::standalone(quick()).await.expect("a server");
    let proxy = Proxy::start(server.address()).await.expect("a proxy");
    let mut client = RawClient::connect(proxy.address()).await.expect("a session");
    let lost = proxy.drop_next_reply(Operation::CREATE2, AfterDrop::Close);
    // The first has no effect, since it has no parent.
    client.send(1, Operation::CREATE2, &raw::create("/a/b", 0)).await.expect("sent");
    assert_eq!(client.reply().await.expect("a reply"), (1, -101));
    client.send(2, Operation::CREATE2, &raw::create("/a", 0)).await.expect("sent");
    assert_eq!(client.reply().await.expect_err("closed").kind(), ErrorKind::UnexpectedEof);
    assert_eq!(lost.happened(PATIENCE).await.expect("lost").error, Some(0));
    let mut client = RawClient::connect(proxy.address()).await.expect("a session");
    client.send(1, Operation::EXISTS, &raw::exists("/a")).await.expect("sent");
    assert_eq!(client.reply().await.expect("it is there"), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_kazoo_count_one_file_up_together_through_the_proxy() {
    let available = zookeeper::availability().and(curator::availability).and(kazoo::availability);
    if !available.or_skip("smoke::curator_and_kazoo_count_one_file_up_together_through_the_proxy") {
        return;
    }
    let server = Server::standalone(quick()).await.expect("a server");
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
async fn one_curator_sees_that_another_holds_and_can_ask_it_to_give_up() {
    let available = zookeeper::availability().and(curator::availability);
    if !available.or_skip("smoke::one_curator_sees_that_another_holds_and_can_ask_it_to_give_up") {
        return;
    }
    let server = Server::standalone(quick()).await.expect("a server");
    let connect = server.address().to_string();
    let (kind, path) = (Kind::Mutex, "/lock");
    let (holder, other) =
        tokio::join!(curator::start(&connect, SESSION_TIMEOUT), curator::start(&connect, SESSION_TIMEOUT));
    let (mut holder, mut other) = (holder.expect("Curator"), other.expect("Curator"));
    holder.make_revocable(kind, path).await.expect("before locking");
    assert_eq!(holder.try_lock(kind, path).await, Ok(true));
    assert_eq!(other.try_lock(kind, path).await, Ok(false));
    let node = holder.node(kind, path).await.expect("held");
    let names = other.participants(kind, path).await.expect("a list");
    assert_eq!(names, [node.rsplit('/').next().expect("a name")]);
    assert_eq!(holder.revoked(kind, path, Duration::ZERO).await, Ok(false));
    other.revoke(&node).await.expect("written");
    assert_eq!(holder.revoked(kind, path, PATIENCE).await, Ok(true));
    holder.release(kind, path).await.expect("held");
    assert_eq!(other.lock(kind, path, PATIENCE).await, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_elects_another_leader_when_its_leader_is_killed() {
    if !zookeeper::availability().or_skip("smoke::an_ensemble_elects_another_leader_when_its_leader_is_killed") {
        return;
    }
    let mut ensemble = Ensemble::start(3, quick()).await.expect("an ensemble");
    let old = ensemble.leader().await.expect("a leader");
    ensemble.server_mut(old).kill();
    let new = ensemble.other_leader(old, PATIENCE).await.expect("another leader");
    assert_ne!(new, old);
    ensemble.server_mut(old).start().expect("the same port");
    assert_eq!(ensemble.server_mut(old).serving().await, Ok(Role::Follower), "it comes back as a follower");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_cut_off_from_its_peers_is_still_reached_by_its_clients() {
    let available = zookeeper::availability().and(namespaces::availability);
    if !available.or_skip("smoke::a_follower_cut_off_from_its_peers_is_still_reached_by_its_clients") {
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
