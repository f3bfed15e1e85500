//! The order of calls over a connection that ends before it has brought any of them to the server.

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::redis::Server;
use lockkeeper_trials::waist::{door, entry, session, ticket, tickets};

use crate::client::{backend, can_run};

/// How many joins are made.
const JOINS: usize = 20;

#[tokio::test]
async fn joins_that_are_sent_again_over_the_next_connection_stand_in_the_order_of_the_calls() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
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
async fn a_join_that_failed_since_it_could_not_be_sent_in_time_is_never_sent_later() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let proxy = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let backend = backend(proxy.address(), "?session_timeout=20s&operation_timeout=500ms");
    let ours = session(&backend).await;
    proxy.cut_and_refuse().await.expect("the port closes");
    let failed = soon("the failure", ours.enqueue_one(&door(), entry(ticket()))).await;
    failed.map(drop).expect_err("there is no connection");
    proxy.accept_again().await.expect("the port opens");
    let later = ticket();
    let joined = soon("a place", async {
        loop {
            if let Ok(joined) = ours.enqueue_one(&door(), entry(later)).await {
                return joined;
            }
        }
    });
    drop(joined.await);
    assert_eq!(tickets(&*ours).await, [Some(later)]);
    soon("the end", ours.close()).await.expect("the end");
}
