//! From the command line to the command, and from its end to the exit code.

use std::process::ExitCode;

use super::claim::at_most;
use super::{completions, doctor, fence, hold, look, orders, run, server, verify, watch};
use crate::args::{self, Cli, CliRequest, Command};
use crate::exit::CommandFailure;
use crate::output::{self, say};
use crate::signals;

pub(crate) fn main() -> ExitCode {
    let prepared = signals::prepare().map_err(|error| CommandFailure::ours(format!("cannot handle signals: {error}")));
    let ended = prepared.and_then(|()| match args::parse(std::env::args_os())? {
        CliRequest::Do(cli) => dispatch(cli),
        CliRequest::Print(text) => output::print(&text).map(|()| 0),
    });
    ExitCode::from(ended.unwrap_or_else(|CommandFailure { code, message }| {
        say(&message);
        code
    }))
}

fn dispatch(cli: Cli) -> Result<u8, CommandFailure> {
    let Cli { global, command } = cli;
    if global.json {
        refuse_json(&command)?;
    }
    match command {
        Command::Run(args) => run::run(&global, args),
        Command::Hold { claim } => hold::hold(&global, &claim),
        Command::Fence(args) => fence::fence(&args),
        Command::Ls { prefix, names: false } => look::ls(&global, prefix.as_deref().unwrap_or_default()),
        Command::Ls { prefix, names: true } => look::names(&global, prefix.as_deref().unwrap_or_default()),
        Command::Show { name, watch: false } => look::show(&global, &name),
        Command::Show { name, watch: true } => watch::watch(&global, &name),
        Command::Wait { name, wait } => look::wait(&global, &name, at_most(wait)),
        #[cfg(feature = "monitor")]
        Command::Deadlocks => super::monitor::deadlocks(&global),
        #[cfg(not(feature = "monitor"))]
        Command::Deadlocks => Err(CommandFailure::without("deadlocks", "monitor")),
        #[cfg(feature = "monitor")]
        Command::Monitor(args) => super::monitor::monitor(&global, *args),
        #[cfg(not(feature = "monitor"))]
        Command::Monitor(_) => Err(CommandFailure::without("monitor", "monitor")),
        #[cfg(feature = "monitor")]
        Command::History(args) => super::monitor::history(&global, &args),
        #[cfg(not(feature = "monitor"))]
        Command::History(_) => Err(CommandFailure::without("history", "monitor")),
        #[cfg(feature = "top")]
        Command::Top => super::top::top(&global),
        #[cfg(not(feature = "top"))]
        Command::Top => Err(CommandFailure::without("top", "top")),
        #[cfg(feature = "monitor")]
        Command::Gc { yes, force } => super::monitor::gc(&global, yes, force),
        #[cfg(not(feature = "monitor"))]
        Command::Gc { .. } => Err(CommandFailure::without("gc", "monitor")),
        Command::Check => look::check(&global),
        Command::Revoke(args) => orders::revoke(&global, args),
        Command::Break(args) => orders::break_lock(&global, &args),
        Command::Freeze(args) => orders::freeze(&global, &args),
        Command::Thaw(args) => orders::thaw(&global, &args),
        Command::Capabilities => doctor::capabilities(&global),
        Command::Doctor { after_restore } => doctor::doctor(&global, after_restore),
        Command::Setup { print, max_session_timeout } => doctor::setup(&global, print, max_session_timeout),
        Command::Verify { clocks_differ, files } => verify::verify(&global, clocks_differ, &files),
        Command::Server(args) => server::server(&global, *args),
        Command::Completions { shell } => completions::completions(shell),
        Command::Man => completions::man(),
    }
}

/// Refuses `--json` where there is nothing to print as JSON, so that no reader takes other output for it.
fn refuse_json(command: &Command) -> Result<(), CommandFailure> {
    let name = match command {
        Command::Run(_) => "run",
        Command::Hold { .. } => "hold",
        Command::Fence(_) => "fence",
        Command::Wait { .. } => "wait",
        Command::Setup { .. } => "setup",
        Command::Server(_) => "server",
        Command::Monitor(_) => "monitor",
        Command::Top => "top",
        Command::Completions { .. } => "completions",
        Command::Man => "man",
        _ => return Ok(()),
    };
    let others =
        "ls, show, deadlocks, history, gc, check, revoke, break, freeze, thaw, capabilities, doctor and verify do";
    Err(CommandFailure::ours(format!("`{name}` prints no JSON; {others}")))
}
