//! Redis: ours beside `SET NX PX` and the crate `rslock`, alone and in a crowd.
//!
//! All run on one thread, so that calls are compared, and not how soon a busy machine wakes the threads of one program.

mod alone;
mod crowd;

use lockkeeper_faults::redis::{self, Flush, Server, Setup};

use super::needs::present;
use crate::Outcome;
use crate::load::{Effort, Turns, one_thread};
use crate::report::Record;
use crate::report::rows::{REDIS, REDIS_AOF};

pub(super) fn measure(effort: Effort, record: &mut Record) -> Outcome<()> {
    present(redis::availability())?;
    one_thread()?.block_on(on_both(effort, record))
}

async fn on_both(effort: Effort, record: &mut Record) -> Outcome<()> {
    let mut turns = Turns::new();
    record.now("redis: one task");
    let server = Server::standalone().await?;
    alone::measure(&server, REDIS, effort, &mut turns, record).await?;
    for hold in &crowd::HOLDS {
        record.now("redis: a crowd of clients");
        crowd::measure(&server, hold, effort, &mut turns, record).await?;
    }
    drop(server);
    record.now("redis: one task, with its log on the disk");
    let server = Setup::new().append_only(Flush::EverySecond).on_disk().start().await?;
    alone::measure(&server, REDIS_AOF, effort, &mut turns, record).await
}
