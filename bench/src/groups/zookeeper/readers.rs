//! A read/write lock that is seldom written.

use std::time::Duration;

use super::super::bench::Bench;
use super::super::ours::CROWD;
use super::ground::Ground;
use crate::Outcome;
use crate::load::{Crowd, CrowdGrants};
use crate::report::Group;

/// Of so many grants of a task, one is to write: 5 %.
const ONE_WRITES_IN: u32 = 20;

/// How long each contends in one round.
const TIME: Duration = Duration::from_millis(700);

pub(super) async fn measure(ground: &mut Ground, bench: &mut Bench) -> Outcome<()> {
    let url = ground.url();
    let name = ground.name;
    let Some(curator) = &mut ground.curator else { return Ok(()) };
    let time = bench.effort.time(TIME);
    for _ in 0..bench.effort.rounds() {
        let rates = bench.turns.each::<_, 2>(async |number| match number {
            0 => Ok(ours(&url, time).await?.per_second()),
            _ => {
                let crowd = curator.time_mixed("/bench/curator-readers", ONE_WRITES_IN, CROWD, time).await?;
                Ok(CrowdGrants::new(crowd.grants, crowd.took).per_second())
            }
        });
        let rates = rates.await?;
        bench.shelf(Group::ZooKeeper, name).beside("readers", rates[0], rates[1]);
    }
    Ok(())
}

async fn ours(url: &str, time: Duration) -> Outcome<CrowdGrants> {
    let keeper = lockkeeper::connect(url)?;
    let lock = keeper.rw_lock("readers")?;
    // Opens the session.
    lock.read().await?.release().await?;
    let mut crowd = Crowd::new();
    for number in (0..ONE_WRITES_IN).cycle().take(CROWD) {
        let lock = lock.clone();
        let mut turn = number;
        crowd.add(move || {
            let lock = lock.clone();
            let writes = turn % ONE_WRITES_IN == 0;
            turn += 1;
            async move {
                match writes {
                    true => Ok(lock.write().await?.release().await?),
                    false => Ok(lock.read().await?.release().await?),
                }
            }
        });
    }
    let grants = crowd.end_after(time).await?;
    keeper.close().await?;
    Ok(grants)
}
