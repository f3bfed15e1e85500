//! Locks on ZooKeeper beside a bare socket, Curator and others: on Apache alone, on three of them, and on the embedded
//! server. All keep their data on the disk. All clients of one comparison talk to the same server, with one session
//! timeout, and Curator times itself within its own virtual machine.
//!
//! | file | what it measures |
//! | --- | --- |
//! | `ground` | nothing: a server, and the peers with sessions on it |
//! | `alone` | one task: lock and release, release by drop, a lock that another client holds, Local beside Strict |
//! | `crowds` | many tasks of one process, on one lock and on a lock each |
//! | `processes` | many processes, and what each of them does |
//! | `waiters` | a hand-off in short and long queues, a place that is kept, a read/write lock that is seldom written |

mod alone;
mod crowds;
mod ground;
mod processes;
mod waiters;

use lockkeeper_faults::zookeeper;

use super::ours::{Bench, present};
use crate::load::{Outcome, one_thread, two_threads};
use crate::report::Group;
use crate::report::rows::{APACHE, APACHE_3, EMBEDDED};
use ground::Ground;

pub(crate) use processes::contend;

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    present(zookeeper::availability())?;
    for name in [APACHE, APACHE_3, EMBEDDED] {
        // Its processes are waited for on this runtime; what is measured has its own.
        let starting = two_threads()?;
        let mut ground = starting.block_on(Ground::start(name))?;
        on(&mut ground, bench)?;
    }
    Ok(())
}

fn on(ground: &mut Ground, bench: &mut Bench) -> Outcome<()> {
    let name = ground.name;
    ground.note_missing(&mut bench.record);
    bench.now(&format!("{name}: one task"));
    part(one_thread()?.block_on(alone::measure(ground, bench)), ground, bench);
    if [APACHE, APACHE_3].contains(&name) {
        bench.now(&format!("{name}: crowds"));
        part(two_threads()?.block_on(crowds::measure(ground, bench)), ground, bench);
        bench.now(&format!("{name}: Sticky"));
        part(two_threads()?.block_on(waiters::rates(ground, bench)), ground, bench);
    }
    if name == APACHE {
        bench.now("a client behind an idle place");
        part(one_thread()?.block_on(waiters::behind_an_idle_place(ground, bench)), ground, bench);
        bench.now("waiters");
        part(one_thread()?.block_on(waiters::measure(ground, bench)), ground, bench);
        bench.now("readers");
        part(two_threads()?.block_on(waiters::readers(ground, bench)), ground, bench);
        bench.now("processes");
        part(two_threads()?.block_on(processes::measure(ground, bench)), ground, bench);
    }
    Ok(())
}

/// What could not be measured is told in its rows; the rest goes on.
fn part(outcome: Outcome<()>, ground: &Ground, bench: &mut Bench) {
    if let Err(error) = outcome {
        bench.record.failed(Group::ZooKeeper, Some(ground.name), &error.to_string());
    }
}
