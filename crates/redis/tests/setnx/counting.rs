//! Ours and others count up together under one lock: a number that is lost shows two holders.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_faults::Packages;
use lockkeeper_faults::process::{self, Process};
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::{figures, long};

use crate::{Peer, keeper};

/// How far they count in the long run, two of each kind and more; the plain one goes a tenth of it.
const COUNT: u32 = 500;

/// How long the key of another client lives: longer than it counts, on a busy machine too.
const THEIRS_MS: u32 = 120_000;

/// The package `redis` of Python.
const PYTHON: Packages = Packages::new("redis-py", include_str!("../../../faults/python/redis-py.txt"));

/// Counts up with the `Lock` of Python's client: port and turns.
const SCRIPT: &str = r#"
import sys, time, redis
client = redis.Redis(port=int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    with client.lock("Lock-0", timeout=120, sleep=0.005):
        number = int(client.get("count") or 0)
        time.sleep(0.002)
        client.set("count", number + 1)
"#;

/// From when to when each held the lock.
type Intervals = Arc<Mutex<Vec<(BootInstant, BootInstant)>>>;

fn note(intervals: &Intervals, from: BootInstant) {
    intervals.lock().expect("no panic").push((from, SystemClock.now()));
}

async fn theirs(address: SocketAddr, turns: u32, intervals: Intervals) {
    let peer = Peer::connect(address).await;
    for _ in 0..turns {
        let random = soon("their grant", peer.lock("Lock-0", THEIRS_MS)).await;
        let from = SystemClock.now();
        peer.count_up("count").await;
        note(&intervals, from);
        assert!(peer.release("Lock-0", &random).await, "it is theirs until they give it back");
    }
}

async fn ours(address: SocketAddr, turns: u32, intervals: Intervals) {
    let (keeper, peer) = (keeper(address), Peer::connect(address).await);
    let mutex = keeper.mutex("Lock-0").expect("a name");
    for _ in 0..turns {
        let guard = soon("our grant", mutex.lock()).await.expect("it is granted");
        let from = SystemClock.now();
        peer.count_up("count").await;
        assert!(guard.hold().is_held());
        note(&intervals, from);
        soon("the release", guard.release()).await.expect("it was held");
    }
    soon("the end", keeper.close()).await.expect("the end");
}

/// Asserts that none was lost, no two held at once, and nothing is left.
async fn check(server: &Server, count: u32, intervals: &Intervals) {
    let counted: u32 = server.ask(&["GET", "count"]).await.expect("the count");
    assert_eq!(counted, count);
    let mut intervals = intervals.lock().expect("no panic").clone();
    intervals.sort_unstable();
    assert!(intervals.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two held at once");
    let left: Vec<String> = server.ask(&["KEYS", "*"]).await.expect("the keys");
    let is_left = |key: &&String| !key.starts_with("{lockkeeper}:setnx") && *key != "count" || key.contains(":h:");
    assert_eq!(left.iter().filter(is_left).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ours_and_plain_clients_lose_no_number_when_they_count_together() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (address, turns, intervals) = (server.address(), long::rounds(COUNT) / 10, Intervals::default());
    let mut counting = tokio::task::JoinSet::new();
    for _ in 0..5 {
        counting.spawn(ours(address, turns, intervals.clone()));
        counting.spawn(theirs(address, turns, intervals.clone()));
    }
    while let Some(counted) = counting.join_next().await {
        counted.expect("no panic");
    }
    check(&server, turns * 10, &intervals).await;
    figures::tell(&format!("ours and plain clients: {} counted together, none lost", turns * 10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ours_and_the_lock_of_pythons_client_lose_no_number_when_they_count_together() {
    if !PYTHON.availability().or_skip_here() {
        return;
    }
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (address, turns, intervals) = (server.address(), long::rounds(COUNT) / 5, Intervals::default());
    let start = || {
        let mut command: Command = process::command("python3");
        command.env("PYTHONPATH", PYTHON.folder().expect("it is there")).arg("-c").arg(SCRIPT);
        command.args([address.port().to_string(), turns.to_string()]).stdin(Stdio::null());
        Process::start(command).expect("python3")
    };
    let mut theirs = [start(), start()];
    let counting = [0; 3].map(|_| tokio::spawn(ours(address, turns, intervals.clone())));
    for counted in counting {
        counted.await.expect("no panic");
    }
    for process in &mut theirs {
        assert!(process.exited(SOON).await.expect("it ends").success());
    }
    check(&server, turns * 5, &intervals).await;
    figures::tell(&format!("ours and Python's client: {} counted together, none lost", turns * 5));
}
