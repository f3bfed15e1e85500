//! The cost of a join behind very many others.

use std::time::Instant;

use libtest_mimic::Failed;
use lockkeeper_core::{QueueName, Session};
use lockkeeper_faults::etcd::Server;
use lockkeeper_trials::Cost;
use lockkeeper_trials::waist::{entry, ticket};

use crate::processes::SETTINGS;
use crate::service::ETCD;

const COST: Cost = Cost { what: "a join", unit: "ms", ahead: 5_000, rounds: 200, times_max: 4.0 };

/// Joins, and returns how long that took, in milliseconds; then leaves.
#[expect(clippy::disallowed_methods, reason = "a test measures how long a join takes")]
async fn join(session: &dyn Session, queue: &QueueName, ahead: usize) -> Result<f64, Failed> {
    let ticket = ticket();
    let begun = Instant::now();
    let joined = session.enqueue_one(queue, entry(ticket)).await?;
    let took = begun.elapsed();
    assert_eq!(joined.view.ahead_of(&joined.id), Some(ahead), "so many are ahead");
    session.withdraw(queue, ticket).await?;
    Ok(took.as_secs_f64() * 1e3)
}

pub(crate) fn behind_thousands() -> Result<(), Failed> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let server = Server::standalone().await?;
        COST.compare(&*ETCD.backend(&[server.address()], SETTINGS), join).await
    })
}
