//! Locks on ZooKeeper beside a bare socket, Curator and others: on Apache alone, on three of them, and on the embedded
//! server. All keep their data on the disk. All clients of one comparison talk to the same server, with one session
//! timeout, and Curator times itself within its own virtual machine.
//!
//! | file | what it measures |
//! | --- | --- |
//! | `ground` | nothing: a server, and the peers with sessions on it |
//! | `alone` | one task: lock and release, release by drop, a lock that another client holds, Local beside Strict |
//! | `crowds` | many tasks of one process, on one lock and on a lock each |
//! | `processes`, `contender` | many processes, and what each of them does |
//! | `sticky` | one task that keeps its place, and a client behind it |
//! | `waiters` | a hand-off in short and long queues |
//! | `readers` | a read/write lock that is seldom written |

mod alone;
mod contender;
mod crowds;
mod ground;
mod processes;
mod readers;
mod sticky;
mod waiters;

use lockkeeper_faults::zookeeper;

use super::needs::present;
use crate::Outcome;
use crate::load::{Effort, Turns, one_thread, two_threads};
use crate::report::rows::{APACHE, APACHE_3, EMBEDDED};
use crate::report::{Group, Record};
use ground::Ground;

pub(crate) use contender::contend;

pub(super) fn measure(effort: Effort, record: &mut Record) -> Outcome<()> {
    present(zookeeper::availability())?;
    let mut turns = Turns::new();
    for name in [APACHE, APACHE_3, EMBEDDED] {
        // Its processes are waited for on this runtime; what is measured has its own.
        let starting = two_threads()?;
        let mut ground = starting.block_on(Ground::start(name))?;
        on(&mut ground, effort, &mut turns, record)?;
    }
    Ok(())
}

fn on(ground: &mut Ground, effort: Effort, turns: &mut Turns, record: &mut Record) -> Outcome<()> {
    let name = ground.name;
    ground.note_missing(record);
    record.now(&format!("{name}: one task"));
    part(one_thread()?.block_on(alone::measure(ground, effort, turns, record)), ground, record);
    if [APACHE, APACHE_3].contains(&name) {
        record.now(&format!("{name}: crowds"));
        part(two_threads()?.block_on(crowds::measure(ground, effort, turns, record)), ground, record);
        record.now(&format!("{name}: Sticky"));
        part(two_threads()?.block_on(sticky::rates(ground, effort, record)), ground, record);
    }
    if name == APACHE {
        record.now("a client behind an idle place");
        part(one_thread()?.block_on(sticky::behind_an_idle_place(ground, effort, turns, record)), ground, record);
        record.now("waiters");
        part(one_thread()?.block_on(waiters::measure(ground, effort, turns, record)), ground, record);
        record.now("readers");
        part(two_threads()?.block_on(readers::measure(ground, effort, turns, record)), ground, record);
        record.now("processes");
        part(two_threads()?.block_on(processes::measure(ground, effort, turns, record)), ground, record);
    }
    Ok(())
}

/// What could not be measured is told in its rows; the rest goes on.
fn part(outcome: Outcome<()>, ground: &Ground, record: &mut Record) {
    if let Err(error) = outcome {
        record.server_failed(Group::ZooKeeper, ground.name, &error.to_string());
    }
}
