//! Events that following meets on etcd alone: compactions, silence, tokens that begin elsewhere, rights that are
//! missing.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{Advice, Backend, FollowEvent, Follower, Scope, Scrutiny};
use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::figures;
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_trials::Onlooker;
use serde_json::json;

use crate::access::{as_ann, guarded, operate, right_revoked};
use crate::operator::{Operator, encoded, number};
use crate::{backend, keeper};

/// A session timeout by which nothing is given up while a watch is overtaken; a quarter of it is the time until a
/// follower looks for compactions.
const PATIENT: &str = "?session_timeout=40s";

/// How much is written that a held watch must carry first: more than all windows and buffers on the way take.
const FLOOD_BYTES: usize = 32 << 20;
const FLOOD_VALUE_BYTES: usize = 1 << 20;

/// How many changes etcd keeps for a watch that does not read before it leaves the watch behind, and some more.
const CHANGES_BEHIND: usize = 1_400;

/// How long what was held comes on its way: so a member looks at its watches again while it still has much to send, and
/// etcd before 3.4.31 and 3.5.13 then mostly forgets what it has not sent (etcd-io/etcd#17529).
const SLOW_WAY: Duration = Duration::from_millis(100);

const SLOW: Duration = Duration::from_secs(3);

/// How often a watch is overtaken until it is told that, by an etcd that is known to forget it.
const OVERTAKEN_MAX: usize = 5;

/// How many times a follower goes over a compaction, and the pause between two.
const COMPACTIONS: usize = 20;
const ROUND_PAUSE: Duration = Duration::from_millis(100);

const TIMED: usize = 100;

/// The most that half of the changes may take, from the call until it is told, as a thread counts it that only sleeps:
/// ten times what they take.
const MEDIAN_MAX: Duration = Duration::from_millis(100);

pub(crate) async fn compact(operator: Operator) {
    let answer = operator.ask("/v3/kv/range", json!({ "key": encoded("x") })).await.expect("a range");
    let request = json!({ "revision": number(&answer["header"]["revision"]).to_string(), "physical": true });
    operator.ask("/v3/kv/compaction", request).await.expect("a compaction");
}

/// Writes so much that a watch which is held falls behind.
async fn leave_behind(operator: Operator) {
    let flood = "x".repeat(FLOOD_VALUE_BYTES);
    for _ in 0..FLOOD_BYTES / FLOOD_VALUE_BYTES {
        operator.put("/lockkeeper/q/%", &flood).await.expect("written");
    }
    for _ in 0..CHANGES_BEHIND {
        operator.put("/lockkeeper/q/%", "").await.expect("written");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compactions_that_come_again_and_again_keep_no_change_from_a_follower_and_cost_it_no_connection() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let keeper = keeper(server.address(), "");
    // It looks for compactions twice a second.
    let mut onlooker = Onlooker::begin(Arc::new(backend(server.address(), "?session_timeout=2s"))).await;
    for round in 0..COMPACTIONS {
        let door = soon("a grant", keeper.mutex("door").expect("a name").lock()).await.expect("it is free");
        onlooker.until_equal().await;
        compact(Operator(server.address())).await;
        let gate = soon("a grant", keeper.mutex(&format!("gate {round}")).expect("a name").lock()).await;
        soon("the release", door.release()).await.expect("it was held");
        onlooker.until_equal().await;
        soon("the release", gate.expect("it is free").release()).await.expect("it was held");
        // So that the follower looks several times in all, at any moment of a round.
        tokio::time::sleep(ROUND_PAUSE).await;
    }
    onlooker.until_equal().await;
    assert_eq!((onlooker.picture.locks().len(), onlooker.wholes), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_a_compaction_has_overtaken_is_lost_and_all_is_told_anew() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let findings = soon("the findings", backend(server.address(), "").admin().examine(Scrutiny::Full)).await;
    // The fault of leases was mended in the same versions.
    let may_forget =
        findings.expect("it can be examined").iter().any(|finding| finding.what.contains("revoke a lease"));
    let watches = if may_forget { OVERTAKEN_MAX } else { 1 };
    for _ in 0..watches {
        if is_overtaken_and_told(&server, Duration::ZERO).await {
            return;
        }
    }
    panic!("of {watches} watches none was told that it was overtaken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_compaction_has_kept_from_a_slow_follower_is_found_whether_its_watch_is_told_or_not() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    is_overtaken_and_told(&server, SLOW).await;
}

/// Has a follower's watch overtaken, on a way that then stays slow for so long, and has it find what it missed; tells
/// whether it was told that it was overtaken.
async fn is_overtaken_and_told(server: &Server, slow: Duration) -> bool {
    let (keeper, operator) = (keeper(server.address(), ""), Operator(server.address()));
    let proxy = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let old = soon("a grant", keeper.mutex("old").expect("a name").lock()).await.expect("it is free");
    let mut onlooker = Onlooker::begin(Arc::new(backend(proxy.address(), PATIENT))).await;
    onlooker.until_equal().await;
    proxy.set_flow(Direction::ToClient, Flow::Hold);
    leave_behind(operator).await;
    soon("the release", old.release()).await.expect("it was held");
    let new = soon("a grant", keeper.mutex("new").expect("a name").lock()).await.expect("it is free");
    compact(operator).await;
    if !slow.is_zero() {
        proxy.set_delay(SLOW_WAY);
    }
    proxy.set_flow(Direction::ToClient, Flow::Pass);
    tokio::time::sleep(slow).await;
    proxy.set_delay(Duration::ZERO);
    onlooker.until_equal().await;
    let names: Vec<_> = onlooker.picture.locks().keys().map(ToString::to_string).collect();
    assert_eq!(names, ["new"]);
    soon("the release", new.release()).await.expect("it was held");
    onlooker.wholes == 2
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_falls_silent_is_lost_without_any_sign_of_it() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let proxy = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let mut onlooker = Onlooker::begin(Arc::new(backend(proxy.address(), "?session_timeout=4s"))).await;
    proxy.blackhole();
    onlooker.hear().await;
    assert!(onlooker.picture.lost().is_some_and(lockkeeper_core::Error::is_transient), "{:?}", onlooker.picture);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_are_counted_anew_are_told() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let keeper = keeper(server.address(), "");
    let _guard = soon("a grant", keeper.mutex("door").expect("a name").lock()).await.expect("it is free");
    let mut onlooker = Onlooker::begin(Arc::new(backend(server.address(), ""))).await;
    let token = |onlooker: &Onlooker| onlooker.picture.locks().values().next().and_then(|infos| infos[0].token);
    let before = token(&onlooker);
    soon("the renewal", onlooker.backend.admin().after_restore()).await.expect("tokens are counted anew");
    onlooker.until_equal().await;
    assert!(token(&onlooker) > before && before.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_may_not_read_is_told_so_and_nothing_else() {
    let Some(server) = guarded().await else { return };
    let mut onlooker = Onlooker::begin(Arc::new(as_ann(server.address(), "?session_timeout=2s"))).await;
    onlooker.until_equal().await;
    operate(server.address(), "/v3/auth/role/revoke", right_revoked()).await;
    let refusal = loop {
        match onlooker.next().await {
            Some(FollowEvent::Lost(error)) if error.advice() == Advice::Permanent => break error,
            Some(_) => {}
            None => panic!("it ends with a reason"),
        }
    };
    assert!(refusal.to_string().contains("below /lockkeeper/"), "{refusal}");
    assert!(onlooker.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_told_at_once() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let keeper = keeper(server.address(), "");
    let mut follower = backend(server.address(), "").admin().follow(&Scope::default()).expect("etcd tells");
    let mutex = keeper.mutex("door").expect("a name");
    let mut delays = Vec::new();
    // The first takes the way of all that was there before, and is not counted.
    for number in 0..=TIMED / 2 {
        let (begun, until_held) = (SystemClock.now(), Sleeper::start());
        let guard = soon("a grant", mutex.lock()).await.expect("it is free");
        until_told(&mut follower, 1).await;
        let (held, until_free) = (SystemClock.now(), Sleeper::start());
        let slept = until_held.slept();
        soon("the release", guard.release()).await.expect("it was held");
        until_told(&mut follower, 0).await;
        let free = SystemClock.now();
        if number > 0 {
            delays.push((held.saturating_duration_since(begun), slept));
            delays.push((free.saturating_duration_since(held), until_free.slept()));
        }
    }
    delays.sort_unstable_by_key(|&(_, slept)| slept);
    let (_, slept) = delays[delays.len() / 2];
    delays.sort_unstable();
    let (count, (median, _), (longest, _)) = (delays.len(), delays[delays.len() / 2], delays[delays.len() - 1]);
    figures::tell(&format!("etcd: half of {count} changes made and told within {median:?}, all within {longest:?}"));
    assert!(slept <= MEDIAN_MAX, "{slept:?} of {median:?}");
}

/// Waits until a lock is told to have so many contenders.
async fn until_told(follower: &mut Follower, contenders: usize) {
    loop {
        let (FollowEvent::All(locks) | FollowEvent::Changed(locks)) =
            soon("a telling", follower.next()).await.expect("it goes on")
        else {
            panic!("it was lost")
        };
        if locks.iter().any(|now| now.contenders.len() == contenders) {
            return;
        }
    }
}
