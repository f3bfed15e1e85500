//! Redis: ours beside `SET NX PX` and the crate `rslock`, alone and in a crowd.
//!
//! All run on one thread, so that calls are compared, and not how soon a busy machine wakes the threads of one program.

mod alone;
mod crowd;

use lockkeeper_faults::redis::{self, Flush, Server, Setup};

use super::bench::{Bench, present};
use crate::Outcome;
use crate::load::one_thread;
use crate::report::rows::{REDIS, REDIS_AOF};

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    present(redis::availability())?;
    one_thread()?.block_on(on_both(bench))
}

async fn on_both(bench: &mut Bench) -> Outcome<()> {
    bench.now("redis: one task");
    let server = Server::standalone().await?;
    alone::measure(&server, REDIS, bench).await?;
    for hold in &crowd::HOLDS {
        bench.now("redis: a crowd of clients");
        crowd::measure(&server, hold, bench).await?;
    }
    drop(server);
    bench.now("redis: one task, with its log on the disk");
    let server = Setup::new().append_only(Flush::EverySecond).on_disk().start().await?;
    alone::measure(&server, REDIS_AOF, bench).await
}
