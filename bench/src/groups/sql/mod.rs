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

use crate::Outcome;
use crate::load::{Effort, Turns, one_thread};
use crate::report::{Group, Record};
use server::{Kind, Server};

pub(super) fn measure(effort: Effort, record: &mut Record) -> Outcome<()> {
    for kind in [Kind::Postgres, Kind::Mariadb] {
        if let Err(why) = one_thread()?.block_on(on(kind, effort, record)) {
            record.shelf(Group::Sql, kind.name()).rest_missing(&why.to_string());
        }
    }
    Ok(())
}

async fn on(kind: Kind, effort: Effort, record: &mut Record) -> Outcome<()> {
    let mut turns = Turns::new();
    let name = kind.name();
    record.now(&format!("sql: {name}, one task"));
    let server = Server::start(kind).await?;
    alone::measure(&server, effort, &mut turns, record).await?;
    record.now(&format!("sql: {name}, one waiter"));
    let one_s = waiting::measure(&server, effort, &mut turns, record).await?;
    record.now(&format!("sql: {name}, a thousand waiters"));
    crowd::measure(&server, one_s, effort, record).await?;
    if kind == Kind::Postgres {
        record.now("sql: pgbench beside listeners");
        beside::measure(&server, effort, &mut turns, record).await?;
    }
    Ok(())
}
