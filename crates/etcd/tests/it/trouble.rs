//! Services that are full or have no quorum, rights and passwords that change, and a runtime that ends: what callers
//! are told, and what is left.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{Advice, Error, ErrorKind, Expected, Liveness, LivenessAt, LossReason, SafeUntil};
use lockkeeper_faults::etcd::{self, Server};
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::wait;
use lockkeeper_recipes::Keeper;
use lockkeeper_trials::waist::{door, entry, session, ticket};
use serde_json::json;

use crate::access::{as_ann, guarded, operate, right_granted, right_revoked};
use crate::operator::Operator;
use crate::{backend, keeper, open};

/// One clear line.
fn told(error: &Error) -> String {
    let told = format!("{error:#}");
    assert!(!told.contains('\n'), "{told}");
    eprintln!("{told}");
    told
}

async fn until_no_contender(address: SocketAddr) {
    let look = async || {
        let stored = Operator(address).keys("/lockkeeper/q/").await.expect("a look");
        stored.is_empty().then_some(())
    };
    wait::until("an empty queue", SOON, look).await.expect("all leave");
}

#[tokio::test]
async fn a_full_database_refuses_joins_with_the_cure_and_lets_holders_leave() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let address = server.address();
    let keeper = keeper(address, "");
    let guard = soon("the grant", keeper.mutex("door").expect("a name").lock()).await.expect("it is granted");
    let alarm = json!({ "action": "ACTIVATE", "alarm": "NOSPACE" }).to_string();
    Server::ask(address, "/v3/maintenance/alarm", &alarm).await.expect("an alarm");
    for full in [keeper.clone(), crate::keeper(address, "")] {
        let error =
            soon("the refusal", full.mutex("window").expect("a name").try_lock()).await.expect_err("it is full");
        assert_eq!((error.kind(), error.advice()), (ErrorKind::LimitReached, Advice::Transient), "{error}");
        assert!(told(&error).contains("NOSPACE"), "{error}");
    }
    assert!(guard.hold().is_held());
    soon("the release", guard.release()).await.expect("it was held");
    until_no_contender(address).await;
    let alarm = json!({ "action": "DEACTIVATE", "alarm": "NOSPACE" }).to_string();
    Server::ask(address, "/v3/maintenance/alarm", &alarm).await.expect("no alarm");
    let guard = soon("the grant", keeper.mutex("window").expect("a name").lock()).await.expect("there is room");
    soon("the release", guard.release()).await.expect("it was held");
}

/// A session that connects while the database is full has no stamp, so that nothing bars what it writes from coming
/// late.
#[tokio::test]
async fn without_a_stamp_a_value_is_changed_only_on_a_state_that_was_read() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let way = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let session = session(&backend(way.address(), "")).await;
    let write = |expected, value| session.values().set(&door(), expected, value);
    let written = soon("the write", write(Expected::Any, Some(b"first".as_slice().into()))).await.expect("an answer");
    let alarm = json!({ "action": "ACTIVATE", "alarm": "NOSPACE" }).to_string();
    Server::ask(server.address(), "/v3/maintenance/alarm", &alarm).await.expect("an alarm");
    way.cut_and_refuse().await.expect("it is cut");
    let cut = async || (way.connections() == 0).then_some(());
    wait::until("the end of the connection", SOON, cut).await.expect("it ends");
    way.accept_again().await.expect("it accepts");
    for expected in [Expected::Any, Expected::Absent] {
        // Over the next connection.
        soon("the value", session.values().get(&door())).await.expect("a look").expect("it is there");
        let error = soon("the refusal", write(expected, None)).await.expect_err("it might come late");
        assert_eq!((error.kind(), error.advice()), (ErrorKind::LimitReached, Advice::Transient), "{error}");
    }
    soon("the value", session.values().get(&door())).await.expect("a look").expect("it is there");
    let removal = soon("the removal", write(Expected::Version(written.expect("it is written")), None)).await;
    assert!(removal.expect("an answer").is_some(), "it was as expected");
}

#[tokio::test]
async fn without_a_quorum_a_call_ends_at_its_deadline_and_says_so() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let address = server.address();
    let settings = "?session_timeout=4s&connect_timeout=2s&operation_timeout=2s";
    let keeper = keeper(address, settings);
    let guard = soon("the grant", keeper.mutex("door").expect("a name").lock()).await.expect("it is granted");
    // A second member that never comes: from now on two are needed.
    let member = json!({ "peerURLs": ["http://127.0.0.1:9"] }).to_string();
    Server::ask(address, "/v3/cluster/member/add", &member).await.expect("a member");
    for cut_off in [keeper, crate::keeper(address, settings)] {
        let mutex = cut_off.mutex("window").expect("a name");
        let error =
            soon("the error", mutex.lock_timeout(Duration::from_secs(3))).await.expect_err("it cannot be known");
        assert_eq!(error.kind(), ErrorKind::ConnectionLost, "{error}");
        let told = told(&error);
        assert!(told.contains("no leader") || told.contains("not answered"), "{told}");
    }
    assert_eq!(soon("the loss", guard.hold().lost()).await, LossReason::Lapsed);
}

/// The only member has two addresses here, so that it stands for two.
#[tokio::test]
async fn a_renewal_that_one_member_does_not_answer_is_made_over_another_one_before_the_first_is_given_up() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let ways = [
        Proxy::of_bytes(server.address()).await.expect("a proxy"),
        Proxy::of_bytes(server.address()).await.expect("a proxy"),
    ];
    let [first, second] = ways.each_ref().map(Proxy::address);
    let session = session(&open(&format!("etcd://{first},{second}?session_timeout=20s"))).await;
    let joined = soon("a place", session.enqueue_one(&door(), entry(ticket()))).await.expect("a place");
    let in_use = ways.iter().find(|way| way.connections() > 0).expect("one is in use");
    in_use.set_flow(Direction::ToClient, Flow::Hold);
    // A renewal that is sent from now on is believed for the session timeout, less the margin of half a second.
    let renewed_from_now = SystemClock.now().saturating_add(Duration::from_millis(20_000 - 500));
    let is_renewed = async || match joined.standing.liveness(LivenessAt::Now) {
        Liveness::Held { safe_until: SafeUntil::At(moment) } => (moment >= renewed_from_now).then_some(()),
        other => panic!("{other:?} before another member was asked"),
    };
    wait::until("a renewal over the other member", SOON, is_renewed).await.expect("it is renewed");
    assert_eq!(ways.iter().map(Proxy::connections).max(), Some(1), "the first connection is still in use");
    in_use.heal();
    soon("the end", session.close()).await.expect("the end");
}

#[tokio::test]
async fn a_token_that_is_no_longer_valid_is_replaced_without_a_word() {
    let Some(server) = guarded().await else { return };
    let keeper = Keeper::new(Arc::new(as_ann(server.address(), "")));
    let guard = soon("the grant", keeper.mutex("door").expect("a name").lock()).await.expect("it is granted");
    // The server forgets the tokens of a user whose password is set.
    let (path, request) = ("/v3/auth/user/changepw", json!({ "name": "ann", "password": "s:cret" }));
    operate(server.address(), path, request).await;
    for _ in 0..3 {
        let other = soon("the grant", keeper.mutex("window").expect("a name").lock()).await.expect("it is granted");
        soon("the release", other.release()).await.expect("it was held");
    }
    assert!(guard.hold().is_held());
    soon("the release", guard.release()).await.expect("it was held");
}

#[tokio::test]
async fn a_release_that_is_refused_says_so_and_takes_effect_once_the_right_is_given_back() {
    let Some(server) = guarded().await else { return };
    let keeper = Keeper::new(Arc::new(as_ann(server.address(), "")));
    let guard = soon("the grant", keeper.mutex("door").expect("a name").lock()).await.expect("it is granted");
    operate(server.address(), "/v3/auth/role/revoke", right_revoked()).await;
    let refused = soon("the refusal", keeper.mutex("window").expect("a name").try_lock()).await;
    let error = refused.expect_err("ann may not");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Refused, Advice::Permanent), "{error}");
    assert!(told(&error).contains("/lockkeeper/"));
    let error = soon("the refusal", guard.release()).await.expect_err("ann may not");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Refused, Advice::Permanent), "{error}");
    assert!(told(&error).contains("stays taken until"), "{error}");
    operate(server.address(), "/v3/auth/role/grant", right_granted()).await;
    let left = async || keeper.contenders("door").await.ok()?.is_empty().then_some(());
    wait::until("an empty queue", SOON, left).await.expect("it is tried again");
}

#[test]
fn a_session_ends_with_its_runtime_and_its_callers_are_told() {
    if !etcd::availability().or_skip_here() {
        return;
    }
    let build =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (ours, other) = (build(), build());
    let server = other.block_on(Server::standalone()).expect("a server");
    let backend = backend(server.address(), "?session_timeout=2s");
    let session = ours.block_on(session(&backend));
    let placed = ticket();
    let joined = ours.block_on(session.enqueue_one(&door(), entry(placed))).expect("a place");
    drop(ours);
    other.block_on(async {
        assert_eq!(soon("the loss", session.bond().lost()).await, LossReason::Closed);
        assert!(!joined.standing.liveness(LivenessAt::Now).is_held());
        soon("the refusal", session.enqueue_one(&door(), entry(ticket()))).await.expect_err("nothing runs any more");
        // Any answer will do.
        let _ = soon("the withdrawal", session.withdraw(&door(), placed)).await;
        let _ = soon("the end", session.close()).await;
        // The service ends it at its timeout.
        until_no_contender(server.address()).await;
    });
}
