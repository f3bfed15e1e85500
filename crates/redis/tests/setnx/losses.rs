//! Holders that die, and keys that are taken from ours.

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::LossReason;
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_faults::figures;
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::sleeper::Sleeper;

use crate::{Peer, keeper, keeper_with, until_contenders};

const TIMEOUT: Duration = Duration::from_secs(2);

const SHORT: &str = "layout=setnx&session_timeout=2s";

/// How long after a change a holder is told of it at most: much less than the time to the next renewal.
const TOLD_WITHIN: Duration = Duration::from_millis(400);

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
        let _: redis::Value = peer.ask(harm).await;
        let since_harm = Sleeper::start();
        assert_eq!(soon("the loss", guard.hold().lost()).await, LossReason::Removed, "{harm:?}");
        assert!(since_harm.slept() < TOLD_WITHIN, "{harm:?}: told after {:?}", since_harm.slept());
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
