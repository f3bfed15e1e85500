//! Many futures that are dropped at once: what they asked for is undone by a few transactions.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_faults::etcd::{Server, availability};
use lockkeeper_faults::wait;
use lockkeeper_recipes::{Keeper, MutexGuard};

use crate::client::keeper;

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

/// Begins to lock, so often.
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
