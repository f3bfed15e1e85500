//! What a join costs behind very many others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use lockkeeper_core::{Backend, Entry, Mode, Owner, QueueName, Session, Ticket};
use lockkeeper_etcd::EtcdBackend;
use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::{figures, long};

/// How many stand ahead; in the plain run a tenth.
const AHEAD: u32 = 5_000;

/// How much longer a join may take behind them than behind none. It counts in the long run, beside which nothing else
/// runs.
const TIMES_MAX: f64 = 4.0;

/// How often each is measured; the medians count.
const ROUNDS: usize = 200;

/// Long enough for thousands of calls that are made at once, each behind the other, on a busy machine.
const SETTINGS: &str = "?session_timeout=60s&operation_timeout=240s";

fn entry() -> Entry {
    let ticket = Ticket::mint().expect("randomness");
    Entry::new(ticket, Mode::Mutex, Arc::new(Owner::new("somewhere", 1, "something")))
}

/// Joins, and returns how long that took; then leaves.
#[expect(clippy::disallowed_methods, reason = "a test measures how long a join takes")]
async fn join(session: &dyn Session, queue: &QueueName, ahead: usize) -> Result<Duration, Failed> {
    let entry = entry();
    let ticket = entry.ticket;
    let begun = Instant::now();
    let joined = session.enqueue_one(queue, entry).await?;
    let took = begun.elapsed();
    assert_eq!(joined.view.ahead_of(&joined.id), Some(ahead), "so many are ahead");
    session.withdraw(queue, ticket).await?;
    Ok(took)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

pub(crate) fn behind_thousands() -> Result<(), Failed> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let server = Server::standalone().await?;
        let backend = EtcdBackend::open(&format!("etcd://{}{SETTINGS}", server.address()).parse()?)?;
        let (others, ours) = (backend.session().await?, backend.session().await?);
        let (long, free) = (QueueName::new("long")?, QueueName::new("free")?);
        let ahead = usize::try_from(long::rounds(AHEAD))?;
        let joining: Vec<_> = (0..ahead).map(|_| others.enqueue_one(&long, entry())).collect();
        for joining in joining {
            joining.await?;
        }
        let (mut behind_many, mut behind_none) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
        for _ in 0..ROUNDS {
            behind_none.push(join(&*ours, &free, 0).await?);
            behind_many.push(join(&*ours, &long, ahead).await?);
        }
        let (behind_many, behind_none) = (median(behind_many), median(behind_none));
        let times = behind_many.as_secs_f64() / behind_none.as_secs_f64();
        figures::tell(&format!(
            "crowd: a join behind {ahead} took {behind_many:.2?}, one behind none {behind_none:.2?}: {times:.2} times"
        ));
        let is_dear = times > TIMES_MAX && long::is_asked_for();
        assert!(!is_dear, "a join behind {ahead} took {times:.2} times one behind none");
        others.close().await?;
        ours.close().await?;
        Ok(())
    })
}
