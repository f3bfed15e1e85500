//! The harness of Redis against the real thing: each test needs Debian's packages or PyPI, and skips by name without.

use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::redis::{
    Cluster, Flush, Release, Sentinels, Server, Setup, availability, availability_of, clock_availability,
    sentinel_availability,
};
use lockkeeper_faults::wait::{self, PATIENCE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::clocks::assert_ahead;

const HOUR_S: i64 = 3_600;

async fn has_the_key(server: &Server) -> bool {
    server.ask::<Option<String>>(&["GET", "key"]).await.expect("an answer").is_some()
}

async fn store_the_key(server: &Server) {
    server.ask::<()>(&["SET", "key", "value"]).await.expect("stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_each_release_keeps_its_port_and_without_persistence_no_data() {
    for release in Release::ALL {
        if !availability_of(release)
            .or_skip("redis::a_server_of_each_release_keeps_its_port_and_without_persistence_no_data")
        {
            return;
        }
        let mut server = Setup::new().release(release).start().await.expect("a server");
        store_the_key(&server).await;
        server.pause().expect("it runs");
        server.resume().expect("it runs");
        assert!(has_the_key(&server).await, "{release:?}");
        server.kill();
        server.start().expect("started");
        server.serving().await.expect("it serves");
        assert_eq!(server.info("tcp_port").await.expect("told"), server.address().port().to_string());
        assert!(!has_the_key(&server).await, "{release:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_log_keeps_its_data_until_they_are_removed() {
    if !availability().or_skip("redis::a_server_with_a_log_keeps_its_data_until_they_are_removed") {
        return;
    }
    for setup in [Setup::new().append_only(Flush::Always), Setup::new().append_only(Flush::EverySecond).on_disk()] {
        let mut server = setup.start().await.expect("a server");
        store_the_key(&server).await;
        server.restart().await.expect("it serves");
        assert!(has_the_key(&server).await);
        server.kill();
        server.start().expect("started");
        server.serving().await.expect("it serves");
        assert!(has_the_key(&server).await);
        server.wipe().await.expect("it serves");
        assert!(!has_the_key(&server).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_users_and_a_password_are_set_up() {
    if !availability().or_skip("redis::memory_users_and_a_password_are_set_up") {
        return;
    }
    let setup = Setup::new().memory(5_000_000, "noeviction").user("lk on >key ~{a}* +get").password("secret");
    let server = setup.start().await.expect("a server");
    assert_eq!(server.info("maxmemory").await.expect("told"), "5000000");
    assert_eq!(server.info("maxmemory_policy").await.expect("told"), "noeviction");
    let users: Vec<String> = server.ask(&["ACL", "LIST"]).await.expect("told");
    assert!(users.iter().any(|user| user.starts_with("user lk on ") && user.contains("~{a}*")), "{users:?}");
    let allowed: String = server.ask(&["ACL", "DRYRUN", "lk", "SET", "{a}", "1"]).await.expect("told");
    assert!(allowed.contains("no permissions"), "{allowed}");
    assert!(users.iter().all(|user| !user.contains("nopass")), "{users:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_wants_its_replica_and_a_promoted_replica_stays_a_master() {
    if !availability().or_skip("redis::a_master_wants_its_replica_and_a_promoted_replica_stays_a_master") {
        return;
    }
    let setup = Setup::new().password("secret").min_replicas(1, 2);
    let master = setup.start().await.expect("a server");
    let refused = master.ask::<()>(&["SET", "key", "value"]).await.expect_err("it has no replica");
    assert!(refused.to_string().contains("NOREPLICAS"), "{refused}");
    let mut replica = Setup::new().replica_of(&master).start().await.expect("a server");
    replica.replicating().await.expect("it follows");
    // A master counts a replica from its first word on, which comes within a second.
    let counted = async || (master.info("min_slaves_good_slaves").await.expect("told") == "1").then_some(());
    wait::until("a counted replica", PATIENCE, counted).await.expect("counted");
    store_the_key(&master).await;
    assert_eq!(master.ask::<i64>(&["WAIT", "1", "0"]).await.expect("an answer"), 1);
    replica.promote().await.expect("promoted");
    replica.restart().await.expect("it serves");
    assert_eq!(replica.info("role").await.expect("told"), "master");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_papers_answers_no_plain_text_and_its_operator_still_reaches_it() {
    if !availability().or_skip("redis::a_server_with_papers_answers_no_plain_text_and_its_operator_still_reaches_it") {
        return;
    }
    let authority = Authority::new("server.example").expect("an authority");
    let server = Setup::new().tls(authority.server_papers()).start().await.expect("a server");
    let settings: Vec<String> = server.ask(&["CONFIG", "GET", "*port"]).await.expect("told");
    let port = server.address().port().to_string();
    let of = |name: &str| settings.chunks(2).find(|pair| pair[0] == name).map(|pair| pair[1].as_str());
    assert_eq!((of("port"), of("tls-port")), (Some("0"), Some(port.as_str())));
    let mut plain = TcpStream::connect(server.address()).await.expect("connected");
    plain.write_all(b"PING\r\n").await.expect("sent");
    let mut answer = Vec::new();
    // It may end the connection at once.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"+"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_running_server_of_each_release_follows_its_clock_both_ways() {
    let test = "redis::the_time_of_a_running_server_of_each_release_follows_its_clock_both_ways";
    for release in Release::ALL {
        if !availability_of(release).and(clock_availability).or_skip(test) {
            return;
        }
        let (usual, moved) = (Setup::new().start(), Setup::new().release(release).movable_clock().start());
        let (usual, mut moved) = (usual.await.expect("a server"), moved.await.expect("a server"));
        for ahead_s in [HOUR_S, -HOUR_S, 0] {
            moved.move_clock(ahead_s).await.expect("moved");
            let moved = async || moved.time_s().await.expect("told");
            assert_ahead(ahead_s, async || usual.time_s().await.expect("told"), moved).await;
        }
        // An expiry goes by that clock.
        moved.ask::<()>(&["SET", "key", "value", "EX", "1800"]).await.expect("stored");
        moved.move_clock(HOUR_S).await.expect("moved");
        assert!(!has_the_key(&moved).await, "{release:?}");
        moved.restart().await.expect("it serves");
        assert_ahead(
            HOUR_S,
            async || usual.time_s().await.expect("told"),
            async || moved.time_s().await.expect("told"),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_start_says_why() {
    if !availability().or_skip("redis::a_server_that_cannot_start_says_why") {
        return;
    }
    let error = Setup::new().memory(1, "no-such-policy").start().await.expect_err("no such policy").to_string();
    assert!(error.contains("has ended") && error.contains("no-such-policy"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_replace_a_master_when_told_and_when_it_dies() {
    if !sentinel_availability().or_skip("redis::sentinels_replace_a_master_when_told_and_when_it_dies") {
        return;
    }
    let mut sentinels = Sentinels::start(2).await.expect("sentinels");
    assert_eq!(sentinels.master().await.expect("a master"), 0);
    store_the_key(&sentinels.servers()[0]).await;
    let second = sentinels.failover().await.expect("another master");
    assert_ne!(second, 0);
    assert!(has_the_key(&sentinels.servers()[second]).await);
    sentinels.server_mut(second).kill();
    let third = sentinels.other_master(second, PATIENCE).await.expect("another master");
    assert_ne!(third, second);
    store_the_key(&sentinels.servers()[third]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_moves_with_its_keys_and_the_old_owner_names_the_new_one() {
    if !availability().or_skip("redis::a_slot_moves_with_its_keys_and_the_old_owner_names_the_new_one") {
        return;
    }
    let cluster = Cluster::start().await.expect("a cluster");
    let slot = cluster.slot_of("{a}").await.expect("told");
    let from = cluster.owner(slot).await.expect("an owner");
    let to = (from + 1) % cluster.servers().len();
    let (old, new) = (&cluster.servers()[from], &cluster.servers()[to]);
    for number in 0..150 {
        old.ask::<()>(&["SET", &format!("{{a}}{number}"), "value"]).await.expect("stored");
    }
    cluster.move_slot(slot, to).await.expect("moved");
    assert_eq!(cluster.owner(slot).await.expect("an owner"), to);
    let keys: Vec<String> = new.ask(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1000"]).await.expect("told");
    assert_eq!(keys.len(), 150);
    let moved = old.ask::<String>(&["GET", "{a}1"]).await.expect_err("the slot has moved").to_string();
    assert!(moved.contains(&format!("{slot} {}", new.address())), "{moved}");
}
