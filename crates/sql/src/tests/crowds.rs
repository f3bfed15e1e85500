//! Many futures that are dropped at once: what they asked for is undone by a few statements.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_faults::wait;
use lockkeeper_recipes::{Keeper, MutexGuard};

use super::server::{Server, each};
use crate::SqlBackend;

const WAITERS: usize = 1_600;

const LOCKS: usize = 4;

type Locking = BoxFuture<lockkeeper_core::Result<MutexGuard>>;

fn keeper(server: &Server) -> Keeper {
    Keeper::new(Arc::new(SqlBackend::open(&server.url().parse().expect("a URL")).expect("a good URL")))
}

async fn contenders(server: &Server) -> usize {
    let count = server.value("SELECT count(*) FROM lockkeeper.contender").await.expect("a count");
    count.parse().expect("a number")
}

async fn until(server: &Server, count: usize) {
    let is_so = async || (contenders(server).await == count).then_some(());
    wait::until(&format!("{count} contenders"), SOON, is_so).await.expect("they come and go");
}

/// How many calls of ours, or transactions that wrote, the server has executed.
async fn executed(server: &Server) -> u64 {
    let calls =
        "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'COM_CALL_PROCEDURE'";
    let count = server.value(server.either("SELECT txid_current()", calls)).await.expect("a count");
    count.parse().expect("a number")
}

async fn begin(keeper: &Keeper) -> Vec<Locking> {
    let mut all: Vec<Locking> = Vec::new();
    for at in 0..WAITERS {
        let mutex = keeper.mutex(&format!("lock-{}", at % LOCKS)).expect("a name");
        all.push(Box::pin(async move { mutex.lock().await }));
    }
    poll_fn(|context| {
        let granted = all.iter_mut().filter_map(|one| match Pin::new(one).poll(context) {
            Poll::Ready(granted) => Some(granted),
            Poll::Pending => None,
        });
        assert_eq!(granted.count(), 0, "all are held");
        Poll::Ready(())
    })
    .await;
    all
}

#[tokio::test]
async fn places_that_are_dropped_together_are_given_up_by_a_few_statements_and_no_withdrawn_join_is_sent() {
    for server in each().await {
        let (holder, waiter) = (keeper(&server), keeper(&server));
        let mut held = Vec::new();
        for at in 0..LOCKS {
            let mutex = holder.mutex(&format!("lock-{at}")).expect("a name");
            held.push(soon("a grant", mutex.lock()).await.expect("it is free"));
        }
        let mutex = waiter.mutex("another").expect("a name");
        soon("a grant", mutex.lock()).await.expect("it is free").release().await.expect("it was held");

        let all = begin(&waiter).await;
        until(&server, LOCKS + WAITERS).await;
        let before = executed(&server).await;
        let dropped = SystemClock.now();
        drop(all);
        until(&server, LOCKS).await;
        println!("stored: gone {:?} after the drop", SystemClock.now().saturating_duration_since(dropped));
        let statements = executed(&server).await - before;
        assert!(statements < WAITERS as u64 / 10, "{statements} statements gave up {WAITERS} places");

        let (before, all) = (executed(&server).await, begin(&waiter).await);
        let dropped = SystemClock.now();
        drop(all);
        // It is asked for behind all that was withdrawn.
        soon("a grant", mutex.lock()).await.expect("it is free").release().await.expect("it was held");
        println!("under way: gone {:?} after the drop", SystemClock.now().saturating_duration_since(dropped));
        assert_eq!(contenders(&server).await, LOCKS);
        let statements = executed(&server).await - before;
        assert!(statements < WAITERS as u64 / 4, "{statements} statements for {WAITERS} joins that were withdrawn");
        drop(held);
    }
}
