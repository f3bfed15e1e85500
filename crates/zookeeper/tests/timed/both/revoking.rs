//! The cost of the watches for requests to give up.

use std::time::Duration;

use lockkeeper_conformance::{soon, until};
use lockkeeper_core::Mode;
use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_faults::proxy::{Direction, Operation};

use crate::support::Bench;
use crate::support::waist::line;
use crate::turn;

use super::SERVER;

/// Less than after what time a node is watched in any case.
const MOMENT: Duration = Duration::from_millis(80);

/// How many rounds count.
const ROUNDS: u32 = 20;

#[tokio::test]
async fn nothing_is_read_for_requests_that_no_caller_waits_for() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let ann = bench.waist("?session_timeout=30s").await;
    let reads = || bench.proxy.count(Direction::ToServer, Operation::GET_DATA);
    // Watches on nodes that stand for long are set in any case; a round counts in which it stood for a moment.
    let standing = async {
        let mut rounds = 0;
        while rounds < ROUNDS {
            let (before, begun) = (reads(), SystemClock.now());
            let (ticket, ours) = ann.take(&line("door"), Mode::Mutex).await;
            drop(ours.standing.revoked());
            ann.leave(&line("door"), ticket).await;
            if SystemClock.now().saturating_duration_since(begun) < MOMENT {
                rounds += 1;
                assert_eq!(reads(), before, "a node was read that stood for a moment");
            }
        }
    };
    soon("so many nodes that stood for a moment", standing).await;
    let asked = reads();
    let (_, ours) = ann.take(&line("door"), Mode::Mutex).await;
    let revoked = tokio::spawn(ours.standing.revoked());
    until("the watch", async || reads() > asked).await;
    revoked.abort();
}
