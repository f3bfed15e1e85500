//! The `lockkeeper` command.
//!
//! # How it works
//!
//! `lockkeeper run` forks a watchdog while it has one thread and no open file, takes the lock like any user of the
//! library, and tells the watchdog, whose own fork then becomes the child (`crates/cli/src/run`). Only two programs are
//! executed, `lockkeeper` and the child. A run has three processes, while it waits for its lock and later. Runner and
//! watchdog share only pipes. If either dies, the other ends the child's process group before the lock can pass on. On
//! files the watchdog holds the contender's pipe too, and removes what a killed runner has left (`tidying` in
//! `crates/file`).
//!
//! `lockkeeper deadlocks` prints what `crates/monitor` finds (`commands/deadlocks.rs`, `output/deadlocks.rs`,
//! `output/way_out.rs`). The page (`crates/cli/src/monitor/page`) is HTML that the server renders; `live` renders what
//! has changed once for all open pages, and each is told by server-sent events, whose bytes all share. Its script
//! alters what differs in place, and its style has a browser skip rows that are not on the screen. Pictures of who
//! waits for whom are laid out in `crates/monitor` (`picture`, `layout`), pure. With `--operate` the page and programs
//! give orders (`crates/cli/src/monitor/operate`): decisions on tokens, sessions and origins are pure. What an order
//! does is in `crates/cli/src/ordering`, which the commands share; an order of a page is conditional on the contender
//! that was seen. `lockkeeper monitor` serves what its `Collector` knows (`crates/cli/src/monitor`,
//! `output/monitored.rs`): it follows the locks where the backend's `follow` tells of changes, and looks again and
//! again where it does not. `model.rs`, pure, keeps since when each holder was seen to hold, what has happened, and how
//! often each lock was lost, where a follower tells that (files: `follow/held.rs`; databases: `follow/signs.rs`);
//! `alerts`, pure too, makes one alert of what is wrong now and then, and its `desk` says what this monitor's receivers
//! are told of it. Of several monitors one sends (`sender.rs`), and each writes down first what it tells (`notes.rs`).
//!
//! `lockkeeper top` (`crates/cli/src/top`) shows what such a `Collector` knows on a terminal. `live` alone does
//! anything: it reads what is known into a `Sight`, hands keys to `App`, draws, and carries out orders by `ordering`,
//! as the commands do. `App`, `Cursor`, `Question`, `Sight` and `draw` are pure, and tested on a screen in memory. All
//! text reaches the cells through `draw/pen.rs`, which escapes it. `screen.rs` has the terminal's modes: a guard and a
//! panic hook give them back.

mod args;
mod commands;
mod config;
mod exit;
mod held;
mod interruption;
#[cfg(any(feature = "metrics", feature = "monitor"))]
mod listening;
mod locked;
mod log;
#[cfg(feature = "monitor")]
mod monitor;
mod ordering;
mod output;
mod run;
mod signals;
mod stdin_end;
#[cfg(feature = "top")]
mod top;
mod voice;
mod wait_line;
mod witness;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: these steps are part of each command's start.
    if let Some(code) = run::hidden_step(std::env::args_os()) {
        return code;
    }
    commands::main()
}
