//! The report to the owner of a contender that is gone for an unknown reason, and waits for keys that may not be
//! watched.

use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::{
    Departure, Enqueued, ErrorKind, Extent, Freshness, Liveness, LivenessAt, LossReason, Request, Revocation, Session,
};
use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_faults::wait;
use lockkeeper_trials::waist::{door, entry, session, ticket};

use crate::access::{all_contenders, as_ann, guarded, operate, right_revoked};
use crate::backend;
use crate::following::compact;
use crate::operator::Operator;

/// How long a caller may wait for what it cannot be told: a pause of a second, and a few more. A session of a minute
/// renews, and so connects anew, only later.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(5);

/// Waits until the owner of a place is told what becomes of its key: the event of one change is followed by that of the
/// next.
async fn until_watched(other: &dyn Session, place: &Enqueued) {
    let asked = other.request(&door(), &place.id, Request::Yield(Revocation::new(None, None)));
    assert!(soon("the request", asked).await.expect("it is made"));
    soon("the request", place.standing.revoked()).await;
}

/// Waits until the owner of a place knows that it is gone.
async fn until_gone(place: &Enqueued) -> LossReason {
    let look = async || match place.standing.liveness(LivenessAt::Now) {
        Liveness::Lost(reason) => Some(reason),
        Liveness::Held { .. } | Liveness::Jeopardy { .. } => None,
    };
    wait::until("the word that the contender is gone", SOON, look).await.expect("it is told")
}

/// All that the service says arrives, and nothing that is asked: so it stays unknown why the contender is gone until
/// the session is told to be over.
#[tokio::test]
async fn a_contender_that_went_with_its_session_is_never_told_to_be_removed() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let operator = Operator(server.address());
    let way = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let backends = [backend(server.address(), ""), backend(way.address(), "")];
    let (ann, bob) = (session(&backends[0]).await, session(&backends[1]).await);
    let ahead = soon("a place", ann.enqueue_one(&door(), entry(ticket()))).await.expect("a place");
    let place = soon("a place", bob.enqueue_one(&door(), entry(ticket()))).await.expect("a place");
    let waiting = tokio::spawn(bob.departure(&door(), Some(&place.id), &ahead.id, place.view.connection));
    until_watched(&*ann, &place).await;
    let stored = operator.keys("/lockkeeper/q/").await.expect("a look");
    let (name, _) = place.id.as_str().rsplit_once(':').expect("an identity");
    let stored = stored.into_iter().find(|stored| stored.key.ends_with(name)).expect("it is there");

    way.set_flow(Direction::ToServer, Flow::Hold);
    assert!(operator.delete(&stored.key).await.expect("a deletion"));
    assert_ne!(until_gone(&place).await, LossReason::Removed, "its session may be over too");
    assert_ne!(soon("the loss", place.standing.lost()).await, LossReason::Removed, "its session may be over too");
    assert!(!waiting.is_finished(), "a waiter is told once it is known");

    assert!(operator.revoke(stored.lease).await.expect("a revocation"));
    let outcome = soon("the end of the wait", waiting).await.expect("no panic");
    assert_eq!(outcome.expect_err("the session is over").kind(), ErrorKind::Lost(LossReason::Expired));
    assert_eq!(place.standing.liveness(LivenessAt::Now), Liveness::Lost(LossReason::Expired));
    assert_eq!(soon("the loss", place.standing.lost()).await, LossReason::Expired);
    soon("the end", ann.close()).await.expect("the end");
}

/// The watch of a contender begins a tenth of a second after its join, with a look. One that began with what came
/// behind the join would need none, and would not tell of a deletion that the server has compacted.
#[tokio::test]
async fn a_contender_that_goes_before_it_is_watched_is_told_also_behind_a_compaction() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let operator = Operator(server.address());
    let backend = backend(server.address(), "");
    let ann = session(&backend).await;
    for is_compacted in [false, true] {
        let place = soon("a place", ann.enqueue_one(&door(), entry(ticket()))).await.expect("a place");
        let stored = operator.keys("/lockkeeper/q/").await.expect("a look");
        let own = stored.iter().find(|stored| stored.lease != 0).expect("it is there");
        assert!(operator.delete(&own.key).await.expect("a deletion"));
        if is_compacted {
            compact(operator).await;
        }
        let lost = soon("the loss", place.standing.lost()).await;
        assert_eq!(lost, LossReason::Removed, "compacted: {is_compacted}");
    }
    soon("the end", ann.close()).await.expect("the end");
}

/// The session renews only after some seconds, so that the deletion is told before the service refuses that too.
#[tokio::test]
async fn a_contender_is_not_told_to_be_removed_by_a_service_that_does_not_say_why_it_is_gone() {
    let Some(server) = guarded().await else { return };
    let backends = [as_ann(server.address(), ""), as_ann(server.address(), "")];
    let (ann, other) = (session(&backends[0]).await, session(&backends[1]).await);
    let place = soon("a place", ann.enqueue_one(&door(), entry(ticket()))).await.expect("a place");
    until_watched(&*other, &place).await;
    operate(server.address(), "/v3/auth/role/revoke", right_revoked()).await;
    operate(server.address(), "/v3/kv/deleterange", all_contenders()).await;
    assert_eq!(until_gone(&place).await, LossReason::Lapsed);
    assert_eq!(soon("the loss", place.standing.lost()).await, LossReason::Lapsed);
}

#[tokio::test]
async fn a_wait_for_what_may_not_be_watched_comes_back_soon_and_costs_no_connection() {
    let Some(server) = guarded().await else { return };
    let backends = ["?session_timeout=60s"; 2].map(|settings| as_ann(server.address(), settings));
    let (holder, onlooker) = (session(&backends[0]).await, session(&backends[1]).await);
    let held = soon("a place", holder.enqueue_one(&door(), entry(ticket()))).await.expect("a place");
    let viewing = onlooker.view(&door(), Freshness::Latest, Extent::Whole);
    let seen = soon("a view", viewing).await.expect("a view");
    operate(server.address(), "/v3/auth/role/revoke", right_revoked()).await;
    let (departure, changed) =
        (onlooker.departure(&door(), None, &held.id, seen.connection), onlooker.changed(&door(), &seen));
    let since_call = Sleeper::start();
    let departure = soon("a word by which the caller can look again", departure).await;
    assert_eq!(departure.expect("the session stands"), Departure::Recheck);
    let changed = soon("a word by which the caller can look again", changed).await;
    assert_eq!(changed.expect_err("ann may not look").kind(), ErrorKind::Refused);
    assert!(since_call.slept() <= COMES_BACK_WITHIN, "{:?}", since_call.slept());
    assert!(matches!(onlooker.bond().liveness(), Liveness::Held { .. }), "{:?}", onlooker.bond());
}
