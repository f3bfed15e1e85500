//! An operator's view and work, and what is refused.

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{ErrorKind, Revocation, Wait};
use lockkeeper_faults::redis::{self, Cluster, Server};
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
