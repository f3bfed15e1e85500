//! Turns: ours stand in one order, the first of them competes with the others, and is told of their end.

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_faults::figures;
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::sleeper::Sleeper;

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
