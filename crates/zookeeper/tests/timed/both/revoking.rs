//! What the watches for requests to give up cost.

use lockkeeper_conformance::until;
use lockkeeper_core::Mode;
use lockkeeper_faults::proxy::{Direction, Operation};

use crate::support::Bench;
use crate::support::waist::line;
use crate::turn;

use super::SERVER;

#[tokio::test]
async fn nothing_is_read_for_requests_that_no_caller_waits_for() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let ann = bench.waist("?session_timeout=30s").await;
    let reads = || bench.proxy.count(Direction::ToServer, Operation::GET_DATA);
    // Watches on nodes that stand for long are set in any case; these stand for a moment.
    let mut asked = 0;
    for _ in 0..20 {
        let (ticket, ours) = ann.take(&line("door"), Mode::Mutex).await;
        drop(ours.standing.revoked());
        ann.leave(&line("door"), ticket).await;
        asked = reads();
    }
    assert!(asked < 5, "{asked}: at most what a slow machine had stand for long");
    let (_, ours) = ann.take(&line("door"), Mode::Mutex).await;
    let revoked = tokio::spawn(ours.standing.revoked());
    until("the watch", async || reads() > asked).await;
    revoked.abort();
}
