//! What a join and a leave cost the server behind very many others, by its own account.

use libtest_mimic::Failed;
use lockkeeper_core::{QueueName, Session};
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::{figures, long};

use crate::stage::{SETTINGS, entry, join_all, session, work};

/// How many stand ahead; in the plain run a tenth.
const AHEAD: u32 = 10_000;

/// How much longer the server may work on a join and a leave behind them than behind none. It counts in the long run,
/// beside which nothing else runs.
const TIMES_MAX: f64 = 2.5;

/// How many joins and leaves are measured together: the server counts in microseconds.
const AT_ONCE: u32 = 50;

/// How often these are measured; the medians count, since a renewal or another process may fall into one of them.
const ROUNDS: usize = 21;

/// Joins and leaves; returns how long the server has worked on that, in microseconds.
async fn join_and_leave(
    server: &Server,
    session: &dyn Session,
    queue: &QueueName,
    ahead: usize,
) -> Result<f64, Failed> {
    let (_, before) = work(server, "evalsha").await?;
    for _ in 0..AT_ONCE {
        let entry = entry()?;
        let ticket = entry.ticket;
        let joined = session.enqueue_one(queue, entry).await?;
        assert_eq!(joined.view.ahead_of(&joined.id), Some(ahead), "so many are ahead");
        session.withdraw(queue, ticket).await?;
    }
    let (_, after) = work(server, "evalsha").await?;
    Ok((after - before) as f64 / f64::from(AT_ONCE))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

pub(crate) fn behind_thousands() -> Result<(), Failed> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let server = Server::standalone().await?;
        let (others, ours) = (session(server.address(), SETTINGS).await?, session(server.address(), SETTINGS).await?);
        let (long, free) = (QueueName::new("long")?, QueueName::new("free")?);
        let ahead = usize::try_from(long::rounds(AHEAD))?;
        join_all(&*others, &long, ahead).await?;
        let (mut behind_many, mut behind_none) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
        for _ in 0..ROUNDS {
            behind_none.push(join_and_leave(&server, &*ours, &free, 0).await?);
            behind_many.push(join_and_leave(&server, &*ours, &long, ahead).await?);
        }
        let (behind_many, behind_none) = (median(behind_many), median(behind_none));
        let times = behind_many / behind_none;
        figures::tell(&format!(
            "crowd: a join and a leave keep the server for {behind_many:.1} us behind {ahead}, for {behind_none:.1} us \
             behind none: {times:.2} times"
        ));
        let is_dear = times > TIMES_MAX && long::is_asked_for();
        assert!(!is_dear, "a join and a leave behind {ahead} cost {times:.2} times those behind none");
        others.close().await?;
        ours.close().await?;
        Ok(())
    })
}
