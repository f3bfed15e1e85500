//! `ls`, `show` and `capabilities`: looking at a service without taking part.

use std::time::Duration;

use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::retry::RetryPolicy;
use lockkeeper::{Advice, Keeper, QueueName};
use tokio::time::timeout;

use super::service::{answer, block_on_closing, open};
use crate::args::Global;
use crate::exit::Failure;
use crate::output::{self, ListedLock, Promises, ShownLock, one_line};
use crate::voice::say;

/// How long a look is tried again while the service cannot be reached: an ensemble that elects a leader refuses everything,
/// and is mostly back sooner.
const TRY_MAX: Duration = Duration::from_secs(5);

/// How long after a look that failed the next one is made; at least half of that.
const TRY_PAUSE: Duration = Duration::from_millis(500);

/// Lists the locks in use whose names begin with `prefix`.
pub(super) fn ls(global: &Global, prefix: &str) -> Result<u8, Failure> {
    let keeper = open(global)?;
    let locks = block_on_closing(&keeper, async {
        let mut locks = Vec::new();
        keeper.tidy().await;
        for name in persistently(&keeper, || keeper.queues(prefix)).await? {
            let queue = persistently(&keeper, || keeper.contenders(name.as_str())).await?;
            // A contender may have left since the queues were listed.
            if !queue.is_empty() {
                locks.push(ListedLock::new(name.as_str(), &queue, SystemClock.unix_time()));
            }
        }
        Ok::<_, lockkeeper::Error>(locks)
    })??;
    answer(global, &locks, || output::list(&locks))
}

/// Prints the names of the locks in use, for a shell that completes a name.
pub(super) fn names(global: &Global, prefix: &str) -> Result<u8, Failure> {
    /// How long a user who has pressed a key waits for it.
    const TIME_MAX: Duration = Duration::from_secs(1);
    let keeper = open(global)?;
    let listed = block_on_closing(&keeper, async { timeout(TIME_MAX, keeper.queues(prefix)).await })?;
    let names = listed.unwrap_or_else(|_| Ok(Vec::new()))?;
    let lines: String = names.iter().map(|name| format!("{}\n", one_line(name.as_str()))).collect();
    output::print(&lines).map(|()| 0)
}

/// Shows who holds a lock and who waits for it.
pub(super) fn show(global: &Global, name: &str) -> Result<u8, Failure> {
    let name = QueueName::new(name)?;
    let keeper = open(global)?;
    let queue = block_on_closing(&keeper, persistently(&keeper, || keeper.contenders(name.as_str())))??;
    let shown = ShownLock::new(name.as_str(), keeper.service(), &queue, SystemClock.unix_time());
    answer(global, &shown, || shown.text())
}

/// Looks again while the service cannot be reached, for a short time, and mentions the first failure.
async fn persistently<Look, Output>(keeper: &Keeper, look: impl FnMut() -> Look) -> lockkeeper::Result<Output>
where
    Look: Future<Output = lockkeeper::Result<Output>>,
{
    let service = keeper.service();
    RetryPolicy::until_elapsed(TRY_MAX, TRY_PAUSE)
        .attempts(|error: &lockkeeper::Error| error.advice() == Advice::Transient)
        .listener(move |failure| {
            if failure.attempt == 1 {
                say(&format!("cannot look at {service}, trying again for {}s: {:#}", TRY_MAX.as_secs(), failure.error));
            }
        })
        .run(look)
        .await
}

/// Says what the service promises.
pub(super) fn capabilities(global: &Global) -> Result<u8, Failure> {
    let keeper = open(global)?;
    let promises = Promises::new(keeper.service(), keeper.capabilities());
    answer(global, &promises, || promises.text())
}
