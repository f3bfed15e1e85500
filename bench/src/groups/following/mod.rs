//! Followers beside 10,000 locks of which 100 change each second: how soon a change is told, and where a backend looks
//! again and again, which part of the time of one connection that takes.
//!
//! | file | what it does |
//! | --- | --- |
//! | `servers` | starts the servers |
//! | `locks` | holds the locks and changes them |
//! | `watcher` | follows them on its own thread, and notes when it was told |

mod locks;
mod servers;
mod watcher;

use std::time::Duration;

use super::bench::Bench;
use crate::Outcome;
use crate::load::{one_thread, two_threads};
use crate::report::Group;
use crate::report::rows::NO_SERVER;
use locks::Locks;
use servers::Served;
use watcher::Watcher;

const LOCKS: u32 = 10_000;

/// How many on files: each holder has a pipe and its follower another one, and a process of 20,000 files has room for
/// them.
const LOCKS_OF_FILES: u32 = 5_000;

/// How long changes are made in one round.
const ROUND_TIME: Duration = Duration::from_secs(6);

/// How soon the last change of a round has to be told where changes are told.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    for name in servers::ALL {
        // Its processes are waited for on this runtime; what is measured has another one.
        let starting = two_threads()?;
        bench.now(&format!("following: {name}"));
        let served = starting.block_on(Served::start(name));
        let outcome = served.and_then(|served| one_thread()?.block_on(on(&served, bench)));
        if let Err(why) = outcome {
            bench.record.failed(Group::Following, Some(name), &why.to_string());
        }
    }
    Ok(())
}

async fn on(served: &Served, bench: &mut Bench) -> Outcome<()> {
    let effort = bench.effort;
    let count = if served.name == NO_SERVER { LOCKS_OF_FILES } else { LOCKS };
    let mut locks = Locks::hold(&served.url, effort.calls(count)).await?;
    let mut watcher = Watcher::start(served.url.clone(), locks.untold()).await?;
    for _ in 0..effort.rounds() {
        // Also in a quick run there are some changes.
        locks.change_for(effort.time(ROUND_TIME).max(Duration::from_millis(500))).await?;
        let shelf = &mut bench.shelf(Group::Following, served.name);
        if served.is_told() {
            locks.until_told(TOLD_WITHIN).await?;
            shelf.ours("told", watcher.take_delays().median());
        } else {
            shelf.ours("looks", watcher.next_look_share().await?);
        }
    }
    watcher.end().await?;
    locks.close().await
}
