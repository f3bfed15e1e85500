//! The order of calls: of those that are not awaited, of those that were not answered, and over what an operator does.

use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::{Expected, Extent, Freshness, Session, Ticket};
use lockkeeper_etcd::EtcdBackend;
use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_trials::waist::{door, entry, session, ticket, tickets};

use crate::client::{backend, can_run};

use crate::operator::Operator;

/// So many that requests overtake one another on any connection, if nothing keeps them in order.
const JOINS: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unawaited_joins_stand_in_the_order_of_their_calls() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let backend = backend(server.address(), "");
    let session = session(&backend).await;
    let minted: Vec<_> = (0..JOINS).map(|_| ticket()).collect();
    let joining: Vec<_> = minted.iter().map(|&ticket| session.enqueue_one(&door(), entry(ticket))).collect();
    // The last is asked for first: the order of the polls does not matter.
    for joined in joining.into_iter().rev() {
        soon("a place", joined).await.expect("a place");
    }
    let expected: Vec<_> = minted.iter().copied().map(Some).collect();
    assert_eq!(tickets(&*session).await, expected);
    // Each withdrawal comes before the join that is called after it.
    for &withdrawn in &minted {
        drop(session.withdraw(&door(), withdrawn));
    }
    let last = ticket();
    let joined = soon("a place", session.enqueue_one(&door(), entry(last))).await.expect("a place");
    assert_eq!(joined.view.contenders.len(), 1, "all others had left before");
    soon("the end", session.close()).await.expect("the end");
}

/// How many contenders stand in a long queue, how many of these leave, and how many join behind the others: more than a
/// segment each.
const STANDING: usize = 140;
const LEAVING: usize = 80;
const JOINING: usize = 80;

async fn join(session: &dyn Session, count: usize) -> Vec<Ticket> {
    let minted: Vec<_> = (0..count).map(|_| ticket()).collect();
    let joining: Vec<_> = minted.iter().map(|&ticket| session.enqueue_one(&door(), entry(ticket))).collect();
    for joined in joining {
        soon("a place", joined).await.expect("a place");
    }
    minted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_joins_after_the_tail_was_deleted_by_hand_stands_behind_all_that_were_there() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let backend = backend(server.address(), "");
    let first = session(&backend).await;
    let standing = join(&*first, STANDING).await;
    for &leaving in &standing[..LEAVING] {
        soon("the withdrawal", first.withdraw(&door(), leaving)).await.expect("it has left");
    }
    let is_there = Operator(server.address()).delete("/lockkeeper/t/door/l").await.expect("an answer");
    assert!(is_there, "a long queue has a tail");
    // Of another process, which knows nothing of the queue.
    let session = session(&self::backend(server.address(), "")).await;
    let joined = join(&*session, JOINING).await;
    let whole = soon("a view", session.view(&door(), Freshness::Latest, Extent::Whole)).await.expect("a view");
    let first_to_join = whole.contenders.iter().find(|contender| contender.ticket == Some(joined[0]));
    let me = &first_to_join.expect("it stands there").id;
    let around = session.view(&door(), Freshness::Latest, Extent::Around(Some(me)));
    let around = soon("a view", around).await.expect("a view");
    assert_eq!(around.ahead_of(me), Some(STANDING - LEAVING));
    assert_eq!(around.contenders[0].ticket, Some(standing[LEAVING]), "who stood first there still does");
}

/// How often a write comes late.
const LATE_WRITES: usize = 5;

/// How long a write that came too late is looked for.
const LOOKED_FOR: Duration = Duration::from_millis(200);

async fn write(session: &dyn Session, value: &str) -> bool {
    let writing = session.set_value(&door(), Expected::Any, Some(value.as_bytes().into()));
    soon("an answer", writing).await.is_ok_and(|written| written.is_some())
}

/// The bytes of the first write are held on their way, and pass on once another write was answered over the next
/// connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_was_not_answered_does_not_take_effect_behind_a_later_one() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let mut ways = Vec::new();
    for _ in 0..2 {
        ways.push(Proxy::of_bytes(server.address()).await.expect("a proxy"));
    }
    let url = format!("etcd://{},{}?session_timeout=6s&operation_timeout=500ms", ways[0].address(), ways[1].address());
    let backend = EtcdBackend::open(&url.parse().expect("a URL")).expect("a good URL");
    let session = session(&backend).await;
    for round in 0..LATE_WRITES {
        let way = ways.iter().find(|way| way.connections() > 0).expect("the session has a connection");
        way.set_flow(Direction::ToServer, Flow::Hold);
        assert!(!write(&*session, "early").await, "it is not answered");
        tokio::time::timeout(SOON, async { while !write(&*session, "late").await {} }).await.expect("another way");
        way.set_flow(Direction::ToServer, Flow::Pass);
        let until = tokio::time::Instant::now() + LOOKED_FOR;
        while tokio::time::Instant::now() < until {
            if let Ok(value) = soon("the value", session.value(&door())).await {
                assert_eq!(&*value.expect("it was written").bytes, b"late", "round {round}");
            }
        }
        // The connection that was held has ended on both sides, so that the other one is the session's.
        tokio::time::timeout(SOON, async {
            while way.connections() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("it ends with its bytes");
    }
}
