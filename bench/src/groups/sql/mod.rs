//! Databases: ours beside ShedLock's statements and the databases' own locks, alone; beside a lock that asks every
//! 100 ms, with one waiter and with a thousand; and what other clients of PostgreSQL keep of their commits beside
//! waiters that listen.
//!
//! All run on one thread, so that statements are compared, and not how soon a busy machine wakes the threads of one
//! program.

mod alone;
mod beside;
mod crowd;
mod server;
mod waiting;

use super::bench::Bench;
use crate::Outcome;
use crate::load::one_thread;
use crate::report::Group;
use crate::report::rows::{MARIADB, POSTGRES};
use server::Server;

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    for name in [POSTGRES, MARIADB] {
        if let Err(why) = one_thread()?.block_on(on(name, bench)) {
            bench.record.failed(Group::Sql, Some(name), &why.to_string());
        }
    }
    Ok(())
}

async fn on(name: &'static str, bench: &mut Bench) -> Outcome<()> {
    bench.now(&format!("sql: {name}, one task"));
    let server = Server::start(name).await?;
    alone::measure(&server, bench).await?;
    bench.now(&format!("sql: {name}, one waiter"));
    let one_s = waiting::measure(&server, bench).await?;
    bench.now(&format!("sql: {name}, a thousand waiters"));
    crowd::measure(&server, one_s, bench).await?;
    if name == POSTGRES {
        bench.now("sql: pgbench beside listeners");
        beside::measure(&server, bench).await?;
    }
    Ok(())
}
