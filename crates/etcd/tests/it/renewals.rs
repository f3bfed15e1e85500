//! The renewals of a process, and what proves them.

use std::time::Duration;

use lockkeeper_core::clock::{Clock as _, SystemClock};
use lockkeeper_faults::etcd::Server;
use lockkeeper_trials::waist::session;

use crate::backend;

const SESSIONS: u64 = 40;

const TIMEOUT: Duration = Duration::from_secs(4);

/// How often a session without contenders is renewed in a timeout.
const RENEWALS: u64 = 4;

/// For how many timeouts requests are counted: without proofs no session is believed for so long.
const COUNTED: u64 = 2;

#[tokio::test]
async fn the_renewals_of_many_sessions_of_a_process_are_proven_by_few_reads() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let backend = backend(server.address(), &format!("?session_timeout={}s", TIMEOUT.as_secs()));
        sessions.push((session(&backend).await, backend));
    }
    let before = server.messages().await.expect("its count");
    SystemClock.sleep_until(SystemClock.now().saturating_add(TIMEOUT * COUNTED as u32)).await;
    let requests = server.messages().await.expect("its count") - before;
    let renewals = SESSIONS * RENEWALS * COUNTED;
    assert!(sessions.iter().all(|(session, _)| session.bond().liveness().is_held()), "each renewal is proven");
    assert!(requests < renewals * 3 / 2, "{requests} requests for {renewals} renewals at most");
}
