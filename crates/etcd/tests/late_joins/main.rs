//! Joins that the server takes in late, after their withdrawal was answered. It is a separate binary, since it has
//! long rounds.

#[path = "../support/client.rs"]
mod client;

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::Session;
use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::{figures, long};
use lockkeeper_trials::waist::{door, entry, session, ticket, tickets};

use crate::client::{backend, can_run};

/// How many joins are tried in the long run; the plain one does a tenth.
const ROUNDS: u32 = 200;

/// How long a join that came too late is looked for after its withdrawal.
const LOOKED_FOR: Duration = Duration::from_millis(300);

/// The server stands still with the join's bytes unread, and the connection ends behind them. It reads both when it
/// goes on, while the client has a new connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_whose_withdrawal_was_answered_never_stands_in_the_queue_later() {
    if !can_run() {
        return;
    }
    let mut server = Server::standalone().await.expect("a server");
    let proxy = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let backend = backend(proxy.address(), "?session_timeout=20s");
    let onlooking = self::backend(server.address(), "");
    let (ours, onlooker) = (session(&backend).await, session(&onlooking).await);
    let rounds = long::rounds(ROUNDS);
    for round in 0..rounds {
        server.pause().expect("it runs");
        let withdrawn = ticket();
        let joining = tokio::spawn(ours.enqueue_one(&door(), entry(withdrawn)));
        // Time for its bytes to reach the server's socket.
        tokio::time::sleep(Duration::from_millis(5)).await;
        proxy.cut();
        let withdrawing = ours.withdraw(&door(), withdrawn);
        server.resume().expect("it runs");
        soon("the withdrawal", withdrawing).await.expect("it is withdrawn");
        assert!(soon("the refusal", joining).await.expect("no panic").is_err(), "it was withdrawn");
        let seen = look_for_a_while(&*onlooker).await;
        assert!(seen, "round {round}: the join stood in the queue after its withdrawal");
    }
    figures::tell(&format!("late_joins: {rounds} of {rounds} joins that came late never stood in the queue"));
}

/// Whether the queue stays empty for a while.
async fn look_for_a_while(onlooker: &dyn Session) -> bool {
    let looking = async {
        loop {
            if !tickets(onlooker).await.is_empty() {
                return;
            }
        }
    };
    tokio::time::timeout(LOOKED_FOR, looking).await.is_err()
}
