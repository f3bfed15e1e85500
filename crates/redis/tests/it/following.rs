//! Followers: changes that the service makes without a call of a client are reported too.

use std::sync::Arc;

use lockkeeper_conformance::{soon, until};
use lockkeeper_core::Picture;
use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::redis::{Server, Setup};
use lockkeeper_recipes::{Keeper, MutexGuard};
use lockkeeper_trials::Onlooker;

use crate::{backend, keeper, open};

async fn lock(keeper: &Keeper, name: &str) -> MutexGuard {
    soon("the lock", keeper.mutex(name).expect("a name").lock()).await.expect("the lock is granted")
}

#[tokio::test]
async fn a_lock_with_a_long_name_is_told_and_so_is_the_end_of_all_keys() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let keeper = keeper(server.address(), "");
    let mut watch = Onlooker::begin(Arc::new(backend(server.address(), ""))).await;
    watch.until_counts(&[]).await;
    // Keys have a digest of it alone.
    let long = "é".repeat(100);
    let guard = lock(&keeper, &long).await;
    watch.until_counts(&[(&long, 1)]).await;
    soon("the release", guard.release()).await.expect("it is given back");
    watch.until_counts(&[]).await;
    let _held = [lock(&keeper, "door").await, lock(&keeper, &long).await];
    watch.until_counts(&[("door", 1), (&long, 1)]).await;
    server.ask::<()>(&["FLUSHALL"]).await.expect("it is emptied");
    watch.until_counts(&[]).await;
}

#[tokio::test]
async fn contenders_of_sessions_that_die_while_no_other_lives_vanish() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let proxy = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let mut held = Vec::new();
    for name in ["a", "b"] {
        let keeper = keeper(proxy.address(), "?session_timeout=1m");
        held.push((lock(&keeper, name).await, keeper));
    }
    let mut watch = Onlooker::begin(Arc::new(backend(server.address(), ""))).await;
    watch.until_counts(&[("a", 1), ("b", 1)]).await;
    proxy.blackhole();
    let of_a = watch.picture.locks().values().next().and_then(|contenders| contenders[0].session.clone());
    // What dies here, no session removes.
    let ended = server.ask::<u64>(&["ZADD", "{lockkeeper}:ss", "XX", "CH", "0", &of_a.expect("a session")]).await;
    assert_eq!(ended.expect("an answer"), 1);
    watch.until_counts(&[("b", 1)]).await;
    server.ask::<u64>(&["DEL", "{lockkeeper}:ss"]).await.expect("an answer");
    watch.until_counts(&[]).await;
    assert_eq!(
        server.ask::<u64>(&["ZCARD", "{lockkeeper}:n"]).await.expect("a count"),
        2,
        "no session has removed them"
    );
}

#[tokio::test]
async fn a_plain_lock_of_another_client_is_told_as_it_comes_changes_and_ends_while_ours_wait() {
    const KEY: &str = "door";
    let Some(server) = Server::standalone_or_skip().await else { return };
    let setnx = "?layout=setnx";
    let take = async |value: &str, within_ms: &str, way: &str| {
        server.ask::<()>(&["SET", KEY, value, way, "PX", within_ms]).await.expect("it is taken");
    };
    let labels = |picture: &Picture| {
        let labels = picture.locks().values().flatten().map(|one| one.label.clone().unwrap_or_default());
        labels.collect::<Vec<_>>()
    };
    let mut watch = Onlooker::begin(Arc::new(backend(server.address(), setnx))).await;
    take("one", "600000", "NX").await;
    let keeper = keeper(server.address(), setnx);
    let mutex = keeper.mutex(KEY).expect("a name");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    watch.until("the other client", |picture| labels(picture) == ["one", ""]).await;
    take("two", "600000", "XX").await;
    watch.until("its change", |picture| labels(picture) == ["two", ""]).await;
    take("three", "300", "XX").await;
    watch.until("its end", |picture| labels(picture) == [""]).await;
    let guard = soon("the lock", waiting).await.expect("no panic").expect("the lock is granted");
    // A client that breaks in is shown, and ours is not any more once it is told.
    take("four", "600000", "XX").await;
    soon("the loss", guard.hold().lost()).await;
    watch.until_counts(&[]).await;
}

#[tokio::test]
async fn a_promoted_replica_is_followed_from_its_whole_state_on() {
    let Some(mut master) = Server::standalone_or_skip().await else { return };
    let replica = Setup::new().replica_of(&master).start().await.expect("a replica");
    let addresses = [master.address(), replica.address()].map(|address| address.to_string()).join(",");
    let both = || open(&format!("redis://{addresses}"));
    let keeper = Keeper::new(Arc::new(both()));
    let _door = lock(&keeper, "door").await;
    let copied = async || replica.ask::<u64>(&["ZCARD", "{lockkeeper}:n"]).await.is_ok_and(|count| count == 1);
    until("the copy", copied).await;
    let mut watch = Onlooker::begin(Arc::new(both())).await;
    watch.until_counts(&[("door", 1)]).await;
    master.kill();
    replica.promote().await.expect("it is promoted");
    let _window = lock(&keeper, "window").await;
    watch.until_counts(&[("door", 1), ("window", 1)]).await;
}
