//! One who follows: what the service does without a call of a client is told too.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_conformance::{soon, until};
use lockkeeper_core::{Backend as _, ContenderInfo, Follower, Picture, Scope};
use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::redis::{Server, Setup};
use lockkeeper_recipes::{Keeper, MutexGuard};
use lockkeeper_redis::RedisBackend;

use crate::client::{backend, can_run};

struct Watch {
    follower: Follower,
    picture: Picture,
}

impl Watch {
    fn begin(backend: &RedisBackend) -> Self {
        let follower = backend.follow(&Scope::default()).expect("it can be followed");
        Self { follower, picture: Picture::default() }
    }

    async fn until(&mut self, what: &str, is_so: impl Fn(&Picture) -> bool + Send + Sync) {
        let hearing = async {
            while self.picture.lost().is_some() || !self.picture.is_whole() || !is_so(&self.picture) {
                self.picture.take(self.follower.next().await.expect("the follower goes on"));
            }
        };
        soon(what, hearing).await;
    }

    /// Waits until these locks, and no other, have so many contenders.
    async fn until_counts(&mut self, expected: &[(&str, usize)]) {
        let count = |(lock, contenders): (&_, &Vec<ContenderInfo>)| (ToString::to_string(lock), contenders.len());
        let expected: Vec<_> = expected.iter().map(|&(lock, count)| (lock.to_owned(), count)).collect();
        let what = format!("{expected:?}");
        self.until(&what, |picture| picture.locks().iter().map(count).collect::<Vec<_>>() == expected).await;
    }
}

fn keeper(address: SocketAddr, settings: &str) -> Keeper {
    Keeper::new(Arc::new(backend(address, settings)))
}

async fn lock(keeper: &Keeper, name: &str) -> MutexGuard {
    soon("the lock", keeper.mutex(name).expect("a name").lock()).await.expect("the lock is granted")
}

#[tokio::test]
async fn a_lock_with_a_long_name_is_told_and_so_is_the_end_of_all_keys() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let keeper = keeper(server.address(), "");
    let mut watch = Watch::begin(&backend(server.address(), ""));
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
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let proxy = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let mut held = Vec::new();
    for name in ["a", "b"] {
        let keeper = keeper(proxy.address(), "?session_timeout=1m");
        held.push((lock(&keeper, name).await, keeper));
    }
    let mut watch = Watch::begin(&backend(server.address(), ""));
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
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let setnx = "?layout=setnx";
    let take = async |value: &str, within_ms: &str, way: &str| {
        server.ask::<()>(&["SET", KEY, value, way, "PX", within_ms]).await.expect("it is taken");
    };
    let labels = |picture: &Picture| {
        let labels = picture.locks().values().flatten().map(|one| one.label.clone().unwrap_or_default());
        labels.collect::<Vec<_>>()
    };
    let mut watch = Watch::begin(&backend(server.address(), setnx));
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
    if !can_run() {
        return;
    }
    let mut master = Server::standalone().await.expect("a server");
    let replica = Setup::new().replica_of(&master).start().await.expect("a replica");
    let addresses = [master.address(), replica.address()].map(|address| address.to_string()).join(",");
    let both = || RedisBackend::open(&format!("redis://{addresses}").parse().expect("a URL")).expect("a good URL");
    let keeper = Keeper::new(Arc::new(both()));
    let _door = lock(&keeper, "door").await;
    let copied = async || replica.ask::<u64>(&["ZCARD", "{lockkeeper}:n"]).await.is_ok_and(|count| count == 1);
    until("the copy", copied).await;
    let mut watch = Watch::begin(&both());
    watch.until_counts(&[("door", 1)]).await;
    master.kill();
    replica.promote().await.expect("it is promoted");
    let _window = lock(&keeper, "window").await;
    watch.until_counts(&[("door", 1), ("window", 1)]).await;
}
