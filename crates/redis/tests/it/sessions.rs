//! Sessions: the order of calls over a connection that ends before it has brought any of them to the server, sessions
//! of different timeouts on one base, and a server that forgets at once what it was to tell of.

use std::time::Duration;

use lockkeeper_conformance::{SOON, soon, until};
use lockkeeper_core::{Backend as _, Departure, Extent, Freshness};
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_faults::wait;
use lockkeeper_trials::waist::{door, entry, session, ticket, tickets};

use crate::{backend, keeper};

const JOINS: usize = 20;

#[tokio::test]
async fn joins_that_are_sent_again_over_the_next_connection_stand_in_the_order_of_the_calls() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let proxy = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let backend = backend(proxy.address(), "?session_timeout=20s");
    let ours = session(&backend).await;
    proxy.set_flow(Direction::ToServer, Flow::Hold);
    let called: Vec<_> = (0..JOINS).map(|_| ticket()).collect();
    // The last ones are waited for first.
    let mut joining: Vec<_> = called.iter().map(|&ticket| ours.enqueue_one(&door(), entry(ticket))).collect();
    joining.reverse();
    let joining: Vec<_> = joining.into_iter().map(tokio::spawn).collect();
    // Time for their bytes to reach the proxy, which loses them.
    tokio::time::sleep(Duration::from_millis(50)).await;
    proxy.reset();
    proxy.set_flow(Direction::ToServer, Flow::Pass);
    for join in joining {
        soon("a place", join).await.expect("no panic").expect("a place");
    }
    let expected: Vec<_> = called.into_iter().map(Some).collect();
    assert_eq!(tickets(&*ours).await, expected);
    soon("the end", ours.close()).await.expect("the end");
}

#[tokio::test]
async fn a_join_that_was_given_up_for_want_of_a_connection_never_stands_in_the_queue() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let proxy = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let ours = session(&backend(proxy.address(), "?session_timeout=20s&operation_timeout=300ms")).await;
    proxy.blackhole();
    proxy.reset();
    let refused = soon("the refusal", ours.enqueue_one(&door(), entry(ticket()))).await;
    assert!(refused.expect_err("there is no server").is_transient());
    proxy.heal();
    proxy.reset();
    until("a view", async || ours.view(&door(), Freshness::Latest, Extent::Whole).await.is_ok()).await;
    assert!(tickets(&*ours).await.is_empty(), "it was sent when its caller knew that it had failed");
    soon("the end", ours.close()).await.expect("the end");
}

const SESSIONS: [&str; 2] = ["ZCARD", "{lockkeeper}:ss"];

#[tokio::test]
async fn an_opening_that_is_given_up_before_its_answer_ends_the_session_that_it_made() {
    const ONE_WAY: Duration = Duration::from_millis(200);
    let Some(server) = Server::standalone_or_skip().await else { return };
    let proxy = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let backend = backend(proxy.address(), "?session_timeout=10m");
    proxy.set_delay(ONE_WAY);
    let opening = tokio::spawn(async move { backend.session().await.map(drop) });
    let count = async || server.ask::<u64>(&SESSIONS).await.expect("a count");
    until("the session", async || count().await == 1).await;
    // Its answer is under way.
    opening.abort();
    until("its end", async || count().await == 0).await;
}

const SHORT: Duration = Duration::from_secs(2);

/// How long after its holder's death a lock is handed on at the latest: the timeout, the time until the waiter's next
/// renewal, and half a second.
const HANDED_ON_WITHIN: Duration = Duration::from_millis(2_000 + 2_000 / 6 + 500);

#[tokio::test]
async fn a_waiter_with_a_long_timeout_follows_a_dead_holder_with_a_short_one_in_time() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let cut = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let long = backend(server.address(), "?session_timeout=20s");
    let short = backend(cut.address(), &format!("?session_timeout={}s", SHORT.as_secs()));
    // Its next renewal but one comes three seconds later, unless it learns of the other session.
    let (long, short) = (session(&long).await, session(&short).await);
    let held = soon("a place", short.enqueue_one(&door(), entry(ticket()))).await.expect("a place");
    let joined = soon("a place", long.enqueue_one(&door(), entry(ticket()))).await.expect("a place");
    let waiting = long.departure(&door(), Some(&joined.id), &held.id, joined.view.connection);
    cut.blackhole();
    let since_death = Sleeper::start();
    assert_eq!(soon("the departure", waiting).await.expect("the session lives"), Departure::Gone);
    let handed_on_after = since_death.slept();
    assert!(handed_on_after <= HANDED_ON_WITHIN, "{handed_on_after:?}");
    soon("the end", long.close()).await.expect("the end");
}

const WAITERS: usize = 4;

/// The server tells of a read that it forgets as of a change: who waits looks again, and is granted the lock in time.
#[tokio::test]
async fn waiters_get_their_turns_where_the_servers_table_of_reads_is_full() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    server.ask::<()>(&["CONFIG", "SET", "tracking-table-max-keys", "1"]).await.expect("a setting");
    let lock = || keeper(server.address(), "").mutex("door").expect("a name");
    let held = soon("the lock", lock().lock()).await.expect("the lock is granted");
    let waiting: Vec<_> = (0..WAITERS)
        .map(|_| {
            let lock = lock();
            tokio::spawn(async move { lock.lock().await.expect("the lock is granted").release().await })
        })
        .collect();
    let looking = keeper(server.address(), "");
    let all_stand = async || (looking.contenders("door").await.ok()?.len() == 1 + WAITERS).then_some(());
    wait::until("the waiters", SOON, all_stand).await.expect("they wait");
    assert!(held.hold().is_held());
    soon("the release", held.release()).await.expect("it is given back");
    for waiter in waiting {
        soon("a turn", waiter).await.expect("no panic").expect("it is given back");
    }
}

#[tokio::test]
async fn a_keeper_has_one_connection_also_for_what_it_asks_beside_its_locks() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let received = async || -> u64 {
        let count = server.info("total_connections_received").await.expect("an answer");
        count.parse().expect("a number")
    };
    // Each question has a connection.
    let before = received().await + 1;
    let keeper = keeper(server.address(), "");
    let guard = soon("the grant", keeper.mutex("reports").unwrap().lock()).await.unwrap();
    assert_eq!(soon("a look", keeper.contenders("reports")).await.unwrap().len(), 1);
    assert_eq!(received().await - before, 1);
    soon("the release", guard.release()).await.unwrap();
    soon("the end", keeper.close()).await.unwrap();
}
