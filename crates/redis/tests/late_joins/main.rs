//! Joins that the server takes in late, after their withdrawal was answered over another connection. It is a separate
//! binary, since it has long rounds.

#[path = "../support/client.rs"]
mod client;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::Session;
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::{figures, long};
use lockkeeper_redis::RedisBackend;
use lockkeeper_trials::waist::{door, entry, session, ticket, tickets};

use crate::client::{backend, can_run};

/// How many joins are tried in the long run; the plain one does a tenth.
const ROUNDS: u32 = 200;

/// How long a join that came too late is looked for after its withdrawal.
const LOOKED_FOR: Duration = Duration::from_millis(100);

/// How often it is tried at most until a join that must be seen was late: on a busy machine its bytes may not have
/// reached the proxy when its connection ends, or are not seen while they are looked for.
const TRIES_MAX: u32 = 100;

/// Holds a join back on its way while its connection ends for the client, which withdraws it over the next one. Then
/// the join goes on. Returns whether it stood in the queue.
async fn join_late(server: &Server, onlooker: &Arc<dyn Session>, prepare: impl Fn(&RedisBackend)) -> bool {
    let first = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let hosts = format!("redis://{},{}?session_timeout=20s", first.address(), server.address());
    let backend = RedisBackend::open(&hosts.parse().expect("a URL")).expect("a good URL");
    prepare(&backend);
    let ours = session(&backend).await;
    first.set_flow(Direction::ToServer, Flow::Hold);
    let withdrawn = ticket();
    let joining = tokio::spawn(ours.enqueue_one(&door(), entry(withdrawn)));
    // Time for its bytes to reach the proxy.
    tokio::time::sleep(Duration::from_millis(10)).await;
    first.half_close(Direction::ToClient);
    // It is sent again over the next connection.
    soon("the answer", joining).await.expect("no panic").expect("a place");
    soon("the withdrawal", ours.withdraw(&door(), withdrawn)).await.expect("it is withdrawn");
    first.set_flow(Direction::ToServer, Flow::Pass);
    let looking = async {
        while tickets(&**onlooker).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let stood = tokio::time::timeout(LOOKED_FOR, looking).await.is_ok();
    soon("the end", ours.close()).await.expect("the end");
    stood
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_whose_withdrawal_was_answered_never_stands_in_the_queue_later() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let onlooking = backend(server.address(), "");
    let onlooker = session(&onlooking).await;
    let rounds = long::rounds(ROUNDS);
    for round in 0..rounds {
        let stood = join_late(&server, &onlooker, |_| {}).await;
        assert!(!stood, "round {round}: the join stood in the queue after its withdrawal");
    }
    figures::tell(&format!("late_joins: {rounds} of {rounds} joins that came late never stood in the queue"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_epochs_a_join_that_comes_late_is_seen() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let onlooking = backend(server.address(), "");
    let onlooker = session(&onlooking).await;
    for _ in 0..TRIES_MAX {
        if join_late(&server, &onlooker, |backend| backend.testing().ignore_epochs()).await {
            return;
        }
    }
    panic!("none of {TRIES_MAX} came late enough to tell anything");
}
