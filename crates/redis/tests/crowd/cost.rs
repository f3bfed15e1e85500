//! The cost of a join and a leave for the server behind very many others, by its own account.

use libtest_mimic::Failed;
use lockkeeper_core::{QueueName, Session};
use lockkeeper_faults::redis::Server;
use lockkeeper_trials::Cost;
use lockkeeper_trials::waist::{entry, ticket};

use crate::service::REDIS;
use crate::stage::{SETTINGS, work};

/// A renewal or another process may fall into one of the rounds.
const COST: Cost = Cost { what: "a join and a leave", unit: "us", ahead: 10_000, rounds: 21, times_max: 2.5 };

/// How many joins and leaves are measured together: the server counts in microseconds.
const AT_ONCE: u32 = 50;

/// Joins and leaves; returns how long the server has worked on that, in microseconds.
async fn join_and_leave(
    server: &Server,
    session: &dyn Session,
    queue: &QueueName,
    ahead: usize,
) -> Result<f64, Failed> {
    let (_, before) = work(server, "evalsha").await?;
    for _ in 0..AT_ONCE {
        let ticket = ticket();
        let joined = session.enqueue_one(queue, entry(ticket)).await?;
        assert_eq!(joined.view.ahead_of(&joined.id), Some(ahead), "so many are ahead");
        session.withdraw(queue, ticket).await?;
    }
    let (_, after) = work(server, "evalsha").await?;
    Ok((after - before) as f64 / f64::from(AT_ONCE))
}

pub(crate) fn behind_thousands() -> Result<(), Failed> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let server = Server::standalone().await?;
        let measure = async |session: &dyn Session, queue: &QueueName, ahead: usize| {
            join_and_leave(&server, session, queue, ahead).await
        };
        COST.compare(&*REDIS.backend(&[server.address()], SETTINGS), measure).await
    })
}
