//! Users: one of the least rights locks, and one that lacks a right is told which.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::{Advice, Error, ErrorKind, FollowEvent, Scope};
use lockkeeper_faults::redis::Server;
use lockkeeper_recipes::Keeper;

use crate::open;

/// The commands that a user needs for locks.
const RIGHTS: [&str; 26] = [
    "hello",
    "auth",
    "evalsha",
    "script|load",
    "client|setname",
    "client|tracking",
    "client|caching",
    "wait",
    "time",
    "get",
    "set",
    "del",
    "exists",
    "pexpire",
    "hget",
    "hmget",
    "hset",
    "hdel",
    "zadd",
    "zrem",
    "zscore",
    "zcard",
    "zcount",
    "zrange",
    "zrangebyscore",
    "zrangebylex",
];

/// Makes a user of these rights to the keys of a base.
async fn make_user(server: &Server, name: &str, base: &str, rights: &[&str]) {
    let (password, keys) = (format!(">{name}-s3cret"), format!("~{{{base}}}*"));
    let rights: Vec<_> = rights.iter().map(|right| format!("+{right}")).collect();
    let mut words = vec!["ACL", "SETUSER", name, "reset", "on", &password, "resetchannels", &keys, "-@all"];
    words.extend(rights.iter().map(String::as_str));
    server.ask::<String>(&words).await.expect("a user");
}

fn keeper(address: SocketAddr, user: &str) -> Keeper {
    Keeper::new(Arc::new(open(&format!("redis://{user}:{user}-s3cret@{address}?connect_timeout=60s"))))
}

async fn refusal(address: SocketAddr, user: &str) -> Option<Error> {
    let keeper = keeper(address, user);
    let lock = keeper.mutex("door").expect("a name");
    let error = match soon("the lock", lock.try_lock()).await {
        Ok(guard) => soon("the release", guard.expect("it is free").release()).await.err(),
        Err(error) => Some(error),
    };
    // What a refused user has left, the service would keep for the session's time.
    let _ = soon("the end", keeper.close()).await;
    error
}

#[tokio::test]
async fn a_user_of_the_least_rights_locks_waits_looks_and_follows() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    make_user(&server, "ann", "lockkeeper", &RIGHTS).await;
    let (one, other) = (keeper(server.address(), "ann"), keeper(server.address(), "ann"));
    let guard = soon("the grant", one.mutex("door").expect("a name").lock()).await.expect("the lock is granted");
    let waiting = other.mutex("door").expect("a name");
    let waiting = tokio::spawn(async move { waiting.lock().await });
    let queued = async || (one.contenders("door").await.expect("a look").len() == 2).then_some(());
    lockkeeper_faults::wait::until("the second contender", SOON, queued).await.expect("it waits");
    assert_eq!(soon("the names", one.admin().queues("")).await.expect("a look").len(), 1);
    let mut follower = one.admin().follow(&Scope::default()).expect("it can be followed");
    match soon("a telling", follower.next()).await {
        Some(FollowEvent::All(locks)) => assert_eq!(locks.iter().map(|now| now.contenders.len()).sum::<usize>(), 2),
        other => panic!("{other:?}"),
    }
    drop(follower);
    soon("the release", guard.release()).await.expect("it is given back");
    let next = soon("the next grant", waiting).await.expect("a task").expect("the lock is granted");
    soon("the release", next.release()).await.expect("it is given back");
    for keeper in [one, other] {
        soon("the end", keeper.close()).await.expect("the end");
    }
}

#[tokio::test]
async fn a_user_that_lacks_a_right_is_told_which() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let address = server.address();
    // Each server lets a client say who it is, and this one has no replicas.
    for missing in RIGHTS.into_iter().filter(|right| !["hello", "auth", "wait"].contains(right)) {
        let rights: Vec<_> = RIGHTS.iter().copied().filter(|&right| right != missing).collect();
        make_user(&server, "bob", "lockkeeper", &rights).await;
        let error = refusal(address, "bob").await.unwrap_or_else(|| panic!("without {missing} it locks"));
        let told = format!("{error:#}");
        eprintln!("{told}");
        assert_eq!((error.kind(), error.advice()), (ErrorKind::Refused, Advice::Permanent), "{missing}: {told}");
        // Before Redis 7 a server names no subcommand.
        let (command, _) = missing.split_once('|').unwrap_or((missing, ""));
        let is_named = [missing, command].iter().any(|name| told.contains(&format!("'{name}'")));
        assert!(is_named && told.contains(&address.to_string()), "{missing}: {told}");
        assert!(!told.contains("s3cret") && !told.contains('\n'), "{told}");
        server.ask::<String>(&["FLUSHALL"]).await.expect("it is empty again");
    }
}

/// So a program that ends knows that it has left the lock behind.
#[tokio::test]
async fn what_cannot_be_given_back_is_told_with_the_time_for_which_it_stays_taken() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    make_user(&server, "dan", "lockkeeper", &RIGHTS).await;
    let keeper = keeper(server.address(), "dan");
    let guard = soon("the grant", keeper.mutex("door").expect("a name").lock()).await.expect("the lock is granted");
    server.ask::<String>(&["ACL", "SETUSER", "dan", "-zrem"]).await.expect("it has lost a right");
    let error = soon("the release", guard.release()).await.expect_err("it is still there");
    let told = format!("{error:#}");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Refused, Advice::Permanent), "{told}");
    assert!(told.contains("'zrem'") && told.contains("stays taken until"), "{told}");
    soon("the end", keeper.close()).await.expect_err("the session is still there");
}

#[tokio::test]
async fn a_user_of_other_keys_is_refused() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    make_user(&server, "cid", "elsewhere", &RIGHTS).await;
    let error = refusal(server.address(), "cid").await.expect("it may not use these keys");
    let told = format!("{error:#}");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Refused, Advice::Permanent), "{told}");
    assert!(told.ends_with("ACL SETUSER <user> ~{lockkeeper}*") && !told.contains('\n'), "{told}");
}
