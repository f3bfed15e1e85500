//! The `lockkeeper` command.

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
