//! Turns: ours stand in one order, the first of them competes with the others, and is told of their end. Ours and
//! others count up together under one lock: a number that is lost shows two holders.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_faults::Packages;
use lockkeeper_faults::process::Process;
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_faults::{figures, long, process};

use crate::{Peer, keeper, until_contenders};

/// How long after a release ours may be granted the lock: it is told by a push, and no poll is this fast.
const TOLD_WITHIN: Duration = Duration::from_millis(400);

/// How long after an end by time ours may be granted the lock, where the server comes across such keys once a second.
const EXPIRED_WITHIN: Duration = Duration::from_millis(300);

/// How often a key ends by time: the server may come across one soon by chance.
const ENDS: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_ours_holds_keeps_others_out_until_it_is_given_back() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (keeper, peer) = (keeper(server.address()), Peer::connect(server.address()).await);
    let guard = soon("our grant", keeper.mutex("Lock-0").expect("a name").lock()).await.expect("it is free");
    assert_eq!(peer.try_lock("Lock-0", 1_000).await, None);
    let value: String = peer.ask(&["GET", "Lock-0"]).await;
    assert!(!peer.release("Lock-0", "another value").await && value.starts_with("{lockkeeper}:setnx:c:"));
    let left_ms: u64 = peer.ask(&["PTTL", "Lock-0"]).await;
    assert!((15_000..=30_000).contains(&left_ms), "{left_ms} ms are left of 30 s");
    soon("the release", guard.release()).await.expect("it was held");
    let random = peer.try_lock("Lock-0", 1_000).await.expect("it is free");
    assert!(peer.release("Lock-0", &random).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_another_client_is_told_to_ours_at_once() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (keeper, peer) = (keeper(server.address()), Peer::connect(server.address()).await);
    // One key has an end by time that is far, the other none.
    for end in [&["PX", "600000"][..], &[]] {
        let _: String = peer.ask(&[&["SET", "Lock-0", "theirs", "NX"], end].concat()).await;
        let mutex = keeper.mutex("Lock-0").expect("a name");
        assert!(soon("the look", mutex.try_lock()).await.expect("a look").is_none(), "they hold it");
        let waiting = tokio::spawn(async move { mutex.lock().await });
        until_contenders(&keeper, "Lock-0", 2).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        let since_release = Sleeper::start();
        assert!(peer.release("Lock-0", "theirs").await);
        let guard = soon("our grant", waiting).await.expect("no panic").expect("it is granted");
        let took = since_release.slept();
        assert!(took < TOLD_WITHIN, "{took:?}");
        figures::tell(&format!("plain lock: ours granted {:.1} ms after a release", took.as_secs_f64() * 1e3));
        soon("the release", guard.release()).await.expect("it was held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_by_time_of_another_clients_key_is_seen_and_a_renewal_keeps_ours_out() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let (keeper, peer) = (keeper(server.address()), Peer::connect(server.address()).await);
    let _: String = peer.ask(&["CONFIG", "SET", "dynamic-hz", "no", "hz", "1"]).await;
    for number in 0..ENDS {
        peer.try_lock("Lock-0", 600_000).await.expect("it is free");
        let mutex = keeper.mutex("Lock-0").expect("a name");
        let waiting = tokio::spawn(async move { mutex.lock().await });
        until_contenders(&keeper, "Lock-0", 2).await;
        let ends_in = Duration::from_millis(600 + 70 * number);
        // The server counts from the call at the earliest, in whole milliseconds.
        let not_before = SystemClock.now().saturating_add(ends_in - Duration::from_millis(2));
        assert_eq!(peer.ask::<u64>(&["PEXPIRE", "Lock-0", &ends_in.as_millis().to_string()]).await, 1);
        let since_call = Sleeper::start();
        let guard = soon("our grant", waiting).await.expect("no panic").expect("it is granted");
        let (now, slept) = (SystemClock.now(), since_call.slept());
        assert!(now >= not_before, "it was theirs");
        assert!(slept < ends_in + EXPIRED_WITHIN, "{slept:?} after a call by which it ends in {ends_in:?}");
        let took = now.saturating_duration_since(not_before);
        figures::tell(&format!("plain lock: ours granted {:.1} ms after an end by time", took.as_secs_f64() * 1e3));
        soon("the release", guard.release()).await.expect("it was held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ours_are_served_in_the_order_in_which_they_joined() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let peer = Peer::connect(server.address()).await;
    let keepers: Vec<_> = (0..4).map(|_| keeper(server.address())).collect();
    let theirs = peer.try_lock("Lock-0", 600_000).await.expect("it is free");
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..20 {
        let mutex = keepers[number % keepers.len()].mutex("Lock-0").expect("a name");
        let served = served.clone();
        tokio::spawn(async move {
            let guard = mutex.lock().await.expect("it is granted");
            served.send(number).expect("the test listens");
            guard.release().await.expect("it was held");
        });
        until_contenders(&keepers[0], "Lock-0", number + 2).await;
    }
    assert!(peer.release("Lock-0", &theirs).await);
    for number in 0..20 {
        assert_eq!(soon("the next", order.recv()).await, Some(number));
    }
}

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
