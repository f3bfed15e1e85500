//! The order of calls over a connection that ends before it has brought any of them to the server.

use std::time::Duration;

use lockkeeper_conformance::{soon, until};
use lockkeeper_core::{Backend as _, Extent, Freshness};
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::redis::Server;
use lockkeeper_trials::waist::{door, entry, session, ticket, tickets};

use crate::client::backend;

/// How many joins are made.
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

/// The sessions that the server knows.
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
