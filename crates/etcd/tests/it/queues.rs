//! Queues: names that are used again, the order of a long queue over an operator's deletion, and many futures that are
//! dropped at once.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{BoxFuture, Departure, Extent, Freshness, Session, Ticket};
use lockkeeper_faults::etcd::{Server, availability};
use lockkeeper_faults::wait;
use lockkeeper_recipes::{Keeper, MutexGuard};
use lockkeeper_trials::waist::{door, entry, session, ticket, tickets};

use crate::operator::Operator;
use crate::{backend, keeper};

/// Where the contenders of the lock `door` are stored.
const QUEUE: &str = "/lockkeeper/q/door/";

/// How often a lock is taken: each name that was ever in use would make every later look slower.
const TURNS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_uses_the_name_of_a_contender_that_has_left_again() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let backend = backend(server.address(), "");
    let session = session(&backend).await;
    let (mut names, mut tokens) = (BTreeSet::new(), Vec::new());
    for _ in 0..TURNS {
        let minted = ticket();
        let joined = soon("a place", session.enqueue_one(&door(), entry(minted))).await.expect("a place");
        let stored = Operator(server.address()).keys(QUEUE).await.expect("the keys");
        names.extend(stored.into_iter().map(|stored| stored.key));
        tokens.push((joined.token, joined.id));
        soon("the end", session.withdraw(&door(), minted)).await.expect("it leaves");
    }
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(tokens.windows(2).all(|pair| pair[0].0 < pair[1].0), "{tokens:?}");
    let identities: BTreeSet<_> = tokens.into_iter().map(|(_, id)| id).collect();
    assert_eq!(identities.len(), TURNS, "each contender has another identity");
}

/// As it does in a service that was taken back to older data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_came_back_is_not_taken_for_a_contender_that_joins() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let backend = backend(server.address(), "");
    let (session, operator) = (session(&backend).await, Operator(server.address()));
    let first = ticket();
    let before = soon("a place", session.enqueue_one(&door(), entry(first))).await.expect("a place");
    let stored = operator.keys(QUEUE).await.expect("the keys").remove(0);
    soon("the end", session.withdraw(&door(), first)).await.expect("it leaves");
    operator.put(&stored.key, "{}").await.expect("it is stored");
    let second = ticket();
    let joined = soon("a place", session.enqueue_one(&door(), entry(second))).await.expect("a place");
    assert!(joined.token > before.token);
    assert_eq!(tickets(&*session).await, [Some(second)]);
    soon("the end", session.withdraw(&door(), second)).await.expect("it leaves");
}

/// A session of etcd's Go client has one key for all of its turns with one lock. It stands behind us when it comes
/// again, and waits for us.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_another_client_ends_though_that_has_joined_again_under_its_key() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let backend = backend(server.address(), "?layout=etcdctl");
    let (session, operator) = (session(&backend).await, Operator(server.address()));
    for wait_begins_first in [false, true] {
        operator.put("door/7aea", "").await.expect("it is stored");
        let minted = ticket();
        let joined = soon("a place", session.enqueue_one(&door(), entry(minted))).await.expect("a place");
        let again = async {
            assert!(operator.delete("door/7aea").await.expect("it is deleted"));
            operator.put("door/7aea", "").await.expect("it is stored");
        };
        let ahead = &joined.view.contenders[0].id;
        let waiting = || session.departure(&door(), Some(&joined.id), ahead, joined.view.connection);
        let waited = if wait_begins_first {
            let waiting = waiting();
            again.await;
            soon("the departure", waiting).await
        } else {
            again.await;
            soon("the departure", waiting()).await
        };
        assert_eq!(waited.expect("a departure"), Departure::Gone);
        let view = soon("a view", session.view(&door(), Freshness::Latest, Extent::Whole)).await.expect("a view");
        assert_eq!(view.position(&joined.id), Some(0));
        assert_eq!(view.position(ahead), None, "the one that has joined again is another contender");
        soon("the end", session.withdraw(&door(), minted)).await.expect("it leaves");
        assert!(operator.delete("door/7aea").await.expect("it is deleted"));
    }
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

const WAITERS: usize = 1_600;

type Locking = BoxFuture<lockkeeper_core::Result<MutexGuard>>;

/// The service's revision: each transaction that changes something is one.
async fn revision(server: &Server) -> u64 {
    let answer = Server::ask(server.address(), "/v3/kv/range", r#"{"key":"AA=="}"#).await.expect("an answer");
    let (_, rest) = answer.split_once(r#""revision":""#).expect("a revision");
    rest.split('"').next().and_then(|number| number.parse().ok()).expect("a number")
}

async fn until(keeper: &Keeper, count: usize) {
    let is_so = async || (keeper.contenders("door").await.ok()?.len() == count).then_some(());
    wait::until(&format!("{count} contenders"), SOON, is_so).await.expect("they come and go");
}

async fn begin(keeper: &Keeper) -> Vec<Locking> {
    let mutex = keeper.mutex("door").expect("a name");
    let locking = || -> Locking {
        let mutex = mutex.clone();
        Box::pin(async move { mutex.lock().await })
    };
    let mut all: Vec<Locking> = (0..WAITERS).map(|_| locking()).collect();
    poll_fn(|context| {
        let is_granted = all.iter_mut().any(|one| Pin::new(one).poll(context).is_ready());
        assert!(!is_granted, "it is held");
        Poll::Ready(())
    })
    .await;
    all
}

#[tokio::test]
async fn places_that_are_dropped_together_are_given_up_by_a_few_transactions_and_no_withdrawn_join_is_sent() {
    if !availability().or_skip_here() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let [holder, waiter] = [(); 2].map(|()| keeper(server.address(), ""));
    let held = soon("the grant", holder.mutex("door").expect("a name").lock()).await.expect("it is free");
    // A session, so that the first poll of each of the others sends its join.
    let next = waiter.mutex("door").expect("a name");
    assert!(soon("an answer", next.try_lock()).await.expect("an answer").is_none());
    let all = begin(&waiter).await;
    until(&holder, 1 + WAITERS).await;
    let (before, dropped) = (revision(&server).await, SystemClock.now());
    drop(all);
    until(&holder, 1).await;
    println!("stored: gone {:?} after the drop", SystemClock.now().saturating_duration_since(dropped));
    let transactions = revision(&server).await - before;
    assert!(transactions < WAITERS as u64 / 10, "{transactions} transactions gave up {WAITERS} places");

    let before = revision(&server).await;
    drop(begin(&waiter).await);
    // It is asked for behind all that was withdrawn.
    assert!(soon("an answer", next.try_lock()).await.expect("an answer").is_none());
    let transactions = revision(&server).await - before;
    assert!(transactions < WAITERS as u64 / 10, "{transactions} transactions for {WAITERS} joins that were withdrawn");
    soon("the release", held.release()).await.expect("it was held");
}
