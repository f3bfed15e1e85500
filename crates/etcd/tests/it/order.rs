//! The order of a long queue over what an operator does.

use lockkeeper_conformance::soon;
use lockkeeper_core::{Extent, Freshness, Session, Ticket};
use lockkeeper_faults::etcd::Server;
use lockkeeper_trials::waist::{door, entry, session, ticket};

use crate::client::backend;
use crate::operator::Operator;

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
    let Some(server) = Server::standalone_or_skip().await else { return };
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
