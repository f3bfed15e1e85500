//! An operator's view and work, what is refused, holders that die, and keys that are taken from ours.

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{ErrorKind, LossReason, Revocation, Wait};
use lockkeeper_faults::redis::{Cluster, Server};
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_faults::{figures, redis};
use lockkeeper_recipes::LockKind;

use crate::{Peer, keeper, keeper_with, until_contenders};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_client_is_shown_by_what_it_wrote_and_hears_no_request() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (keeper, peer) = (keeper(server.address()), Peer::connect(server.address()).await);
    let theirs = peer.try_lock("Lock-0", 600_000).await.expect("it is free");
    let mutex = keeper.mutex("Lock-0").expect("a name");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_contenders(&keeper, "Lock-0", 2).await;
    let shown = keeper.contenders("Lock-0").await.expect("a look");
    assert_eq!((shown[0].label.as_deref(), shown[0].ticket, shown[0].token), (Some(&*theirs), None, None));
    assert!(shown[1].ticket.is_some());
    let asked = soon("the answer", keeper.admin().revoke("Lock-0", Revocation::new(None, None), Wait::No)).await;
    assert_eq!(asked.expect_err("it hears nothing").kind(), ErrorKind::Unsupported);
    assert!(peer.release("Lock-0", &theirs).await);
    let guard = soon("our grant", waiting).await.expect("no panic").expect("it is granted");
    assert_eq!(keeper.contenders("Lock-0").await.expect("a look").len(), 1);
    soon("the release", guard.release()).await.expect("it was held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_programs_data_under_the_name_keep_ours_out_and_are_left_alone() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (keeper, peer) = (keeper(server.address()), Peer::connect(server.address()).await);
    assert_eq!(peer.ask::<u64>(&["HSET", "Lock-0", "field", "value"]).await, 1);
    let mutex = keeper.mutex("Lock-0").expect("a name");
    assert!(soon("the look", mutex.try_lock()).await.expect("a look").is_none());
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_contenders(&keeper, "Lock-0", 2).await;
    assert_eq!(peer.ask::<u64>(&["DEL", "Lock-0"]).await, 1);
    let guard = soon("our grant", waiting).await.expect("no panic").expect("it is granted");
    soon("the release", guard.release()).await.expect("it was held");
}

#[tokio::test]
async fn other_kinds_of_lock_and_names_among_our_keys_are_refused() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let keeper = keeper(server.address());
    assert_eq!(keeper.rw_lock("Lock-0").expect_err("there is none").kind(), ErrorKind::Unsupported);
    assert_eq!(keeper.semaphore("Lock-0", 2).expect_err("there is none").kind(), ErrorKind::Unsupported);
    assert_eq!(keeper.election("Lock-0").expect_err("there is none").kind(), ErrorKind::Unsupported);
    let mutex = keeper.mutex("{lockkeeper}:setnx").expect("a name");
    let error = soon("the refusal", mutex.try_lock()).await.expect_err("our keys lie there");
    assert_eq!(error.kind(), ErrorKind::InvalidName, "{error}");
    assert_eq!(keeper.contenders("{lockkeeper}").await.expect_err("the same").kind(), ErrorKind::InvalidName);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_refused_in_one_line() {
    if !redis::availability().or_skip_here() {
        return;
    }
    let cluster = Cluster::start().await.expect("a cluster");
    let keeper = keeper(cluster.addresses()[0]);
    let locking = keeper.mutex("Lock-0").expect("a name");
    let error = soon("the refusal", locking.try_lock()).await.expect_err("the keys lie apart");
    let told = format!("{error:#}");
    assert!(told.contains("layout=setnx") && told.contains("cluster") && !told.contains('\n'), "{told}");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_frozen_keeps_others_out_beyond_the_session_until_it_is_thawed() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (peer, keeper) = (Peer::connect(server.address()).await, keeper(server.address()));
    let short = keeper_with(server.address(), "layout=setnx&session_timeout=2s");
    soon("the freeze", short.admin().freeze("Lock-0", LockKind::Mutex, "maintenance", Wait::Forever))
        .await
        .expect("it is free");
    soon("the end", short.close()).await.expect("the end");
    assert_eq!(peer.ask::<i64>(&["PTTL", "Lock-0"]).await, -1, "it has no end by time");
    soon("the thaw", keeper.admin().thaw("Lock-0")).await.expect("it is frozen");
    let theirs = peer.try_lock("Lock-0", 1_000).await.expect("it is free");
    assert!(peer.release("Lock-0", &theirs).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_renew_and_release_and_the_next_is_granted_the_lock_where_memory_is_full() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (keeper, peer) =
        (keeper_with(server.address(), "layout=setnx&session_timeout=4s"), Peer::connect(server.address()).await);
    let guard = soon("our grant", keeper.mutex("Lock-0").expect("a name").lock()).await.expect("it is free");
    let waiting = keeper.mutex("Lock-0").expect("a name");
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_contenders(&keeper, "Lock-0", 2).await;
    let _: String = peer.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
    // Longer than the session timeout.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(guard.hold().is_held() && peer.ask::<u64>(&["EXISTS", "Lock-0"]).await == 1, "it renews");
    soon("the release", guard.release()).await.expect("it was held");
    let guard = soon("the next grant", waiting).await.expect("no panic").expect("it is granted");
    assert_eq!(peer.ask::<u64>(&["EXISTS", "Lock-0"]).await, 1);
    let other = soon("the refusal", keeper.mutex("Lock-1").expect("a name").try_lock()).await;
    assert_eq!(other.expect_err("there is no room").kind(), ErrorKind::LimitReached);
    soon("the release", guard.release()).await.expect("it was held");
    assert_eq!(peer.ask::<u64>(&["EXISTS", "Lock-0"]).await, 0);
}

const TIMEOUT: Duration = Duration::from_secs(2);

const SHORT: &str = "layout=setnx&session_timeout=2s";

/// How long after a change a holder is told of it at most: much less than the time to the next renewal.
const LOSS_TOLD_WITHIN: Duration = Duration::from_millis(400);

/// How long after its grant a key is watched, which nothing shows.
const WATCHED_WITHIN: Duration = Duration::from_millis(200);

/// How much later than at its time the end of a dead holder may be seen.
const SEEN_LATE_MAX: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_key_is_deleted_or_overwritten_is_told_at_once_and_leaves_the_other_clients_key() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (keeper, peer) = (keeper(server.address()), Peer::connect(server.address()).await);
    for harm in [&["DEL", "Lock-0"][..], &["SET", "Lock-0", "theirs", "PX", "600000"]] {
        let guard = soon("our grant", keeper.mutex("Lock-0").expect("a name").lock()).await.expect("it is free");
        // So that the key is watched by now.
        until_contenders(&keeper, "Lock-0", 1).await;
        tokio::time::sleep(WATCHED_WITHIN).await;
        let _: ::redis::Value = peer.ask(harm).await;
        let since_harm = Sleeper::start();
        assert_eq!(soon("the loss", guard.hold().lost()).await, LossReason::Removed, "{harm:?}");
        assert!(since_harm.slept() < LOSS_TOLD_WITHIN, "{harm:?}: told after {:?}", since_harm.slept());
        assert!(!guard.hold().is_held());
        let _ = soon("the release", guard.release()).await;
    }
    until_contenders(&keeper, "Lock-0", 1).await;
    assert_eq!(peer.ask::<String>(&["GET", "Lock-0"]).await, "theirs", "it is not ours to delete");
    assert!(soon("the look", keeper.mutex("Lock-0").expect("a name").try_lock()).await.expect("a look").is_none());
}

/// Takes the lock in a runtime that ends without a word, as a process does that is killed; counts the time since.
fn take_and_die(server: &Server) -> Sleeper {
    let address = server.address();
    let dying = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let held = runtime.block_on(async {
            let keeper = keeper_with(address, SHORT);
            let guard = soon("our grant", keeper.mutex("Lock-0").expect("a name").lock()).await.expect("it is free");
            (keeper, guard)
        });
        let since_death = Sleeper::start();
        runtime.shutdown_background();
        std::mem::forget(held);
        since_death
    });
    dying.join().expect("no panic")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_dies_is_followed_by_others_within_the_timeout_and_by_ours_a_sixth_of_it_later() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let peer = Peer::connect(server.address()).await;
    let since_death = take_and_die(&server);
    let theirs = soon("their grant", peer.lock("Lock-0", 600_000)).await;
    let took = since_death.slept();
    assert!(took < TIMEOUT + SEEN_LATE_MAX, "{took:?}");
    assert!(peer.release("Lock-0", &theirs).await);
    figures::tell(&format!(
        "plain lock: another client granted {:.2} s after a death, timeout 2 s",
        took.as_secs_f64()
    ));

    let keeper = keeper_with(server.address(), SHORT);
    let since_death = take_and_die(&server);
    let guard = soon("our grant", keeper.mutex("Lock-0").expect("a name").lock()).await.expect("it is granted");
    let took = since_death.slept();
    assert!(took < TIMEOUT + TIMEOUT / 6 + SEEN_LATE_MAX, "{took:?}");
    assert_eq!(peer.try_lock("Lock-0", 1_000).await, None);
    soon("the release", guard.release()).await.expect("it was held");
    figures::tell(&format!("plain lock: ours granted {:.2} s after a death, timeout 2 s", took.as_secs_f64()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_renews_all_its_keys_for_as_long_as_it_holds_them() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (keeper, peer) = (keeper_with(server.address(), SHORT), Peer::connect(server.address()).await);
    let mut guards = Vec::new();
    // More than a renewal asks for by name.
    for number in 0..100 {
        let mutex = keeper.mutex(&format!("Lock-{number}")).expect("a name");
        guards.push(soon("our grant", mutex.lock()).await.expect("it is free"));
    }
    let until = SystemClock.now().saturating_add(TIMEOUT * 2);
    while SystemClock.now() < until {
        for number in [0, 50, 99] {
            assert_eq!(peer.try_lock(&format!("Lock-{number}"), 1_000).await, None);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for guard in guards {
        assert!(guard.hold().is_held());
        soon("the release", guard.release()).await.expect("it was held");
    }
    assert_eq!(peer.ask::<u64>(&["EXISTS", "Lock-0", "Lock-50", "Lock-99"]).await, 0);
}
