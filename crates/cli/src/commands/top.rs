//! `top`: the busiest locks on a terminal, live, until a key or a signal ends it.

use std::io::{IsTerminal as _, stdin, stdout};

use lockkeeper_console::top::{self, JobStop};
use rustix::process::Signal;

use super::service::{block_on_closing, open};
use crate::config::Global;
use crate::config::monitor_settings;
use crate::exit::{CommandFailure, by_signal};
use crate::run::{JobControl, stop_job};
use crate::signals::EndingSignals;
use crate::signals::catch;

pub(crate) fn top(global: &Global) -> Result<u8, CommandFailure> {
    if !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(CommandFailure::ours("top: stdin and stdout are no terminal; `lockkeeper ls` prints the locks"));
    }
    if std::env::var_os("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb") {
        return Err(CommandFailure::ours(
            "top: TERM names no terminal with a screen; `lockkeeper ls` prints the locks",
        ));
    }
    let settings = monitor_settings(global)?;
    let keeper = open(global)?;
    let orders = global.orders();
    block_on_closing(&keeper, async {
        let mut interruption = EndingSignals::listen()?;
        let failed = |error| CommandFailure::ours(format!("top: the terminal cannot be used: {error}"));
        let job = JobStop { signal: catch(Signal::TSTP).map_err(failed)?, stop };
        tokio::select! {
            biased;
            cause = interruption.heard() => Ok(by_signal(cause.number)),
            ended = top::run(&keeper, &settings, &orders, job) => ended,
        }
    })?
}

fn stop() -> Result<(), String> {
    match stop_job() {
        Ok(JobControl::Shell) => Ok(()),
        Ok(JobControl::NoProcess) => Err("there is no shell that would continue this program".to_owned()),
        Err(error) => Err(format!("this program cannot be stopped: {error}")),
    }
}
