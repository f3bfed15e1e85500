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
//! `crates/console` has what is known of all locks and an operator's orders to them: `monitor`, `top`, and what the
//! other commands print of locks.

mod args;
mod commands;
mod config;
mod held;
mod log;
mod output;
mod run;
mod signals;
mod stdin_end;
mod voice;
mod wait_line;
mod witness;

use std::process::ExitCode;

use lockkeeper_console::exit;

fn main() -> ExitCode {
    // Before anything else: these steps are part of each command's start.
    if let Some(code) = run::hidden_step(std::env::args_os()) {
        return code;
    }
    commands::main()
}
