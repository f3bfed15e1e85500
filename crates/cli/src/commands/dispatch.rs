//! From the command line to the command, and from its end to the exit code.

use std::process::ExitCode;

use super::claim::at_most;
use super::{
    capabilities, check, completions, deadlocks, doctor, fence, gc, hold, look, manual, monitor, orders, run, server,
    setup, top, wait, watch,
};
use crate::args::{self, Cli, Command, Request};
use crate::exit::Failure;
use crate::output;
use crate::voice::say;

/// Does what the command line asks for.
pub(crate) fn main() -> ExitCode {
    let ended = match args::parse(std::env::args_os()) {
        Ok(Request::Do(cli)) => dispatch(cli),
        Ok(Request::Print(text)) => output::print(&text).map(|()| 0),
        Err(failure) => Err(failure),
    };
    ExitCode::from(ended.unwrap_or_else(|Failure { code, message }| {
        say(&message);
        code
    }))
}

fn dispatch(cli: Cli) -> Result<u8, Failure> {
    let Cli { global, command } = cli;
    if global.json {
        refuse_json(&command)?;
    }
    match command {
        Command::Run(args) => run::run(&global, args),
        Command::Hold(args) => hold::hold(&global, &args),
        Command::Fence(args) => fence::fence(&args),
        Command::Ls { prefix, names: false } => look::ls(&global, prefix.as_deref().unwrap_or_default()),
        Command::Ls { prefix, names: true } => look::names(&global, prefix.as_deref().unwrap_or_default()),
        Command::Show { name, watch: false } => look::show(&global, &name),
        Command::Show { name, watch: true } => watch::watch(&global, &name),
        Command::Wait { name, wait } => wait::wait(&global, &name, at_most(wait)),
        Command::Deadlocks => deadlocks::deadlocks(&global),
        Command::Monitor(args) => monitor::monitor(&global, *args),
        Command::Top => top::top(&global),
        Command::Gc(args) => gc::gc(&global, &args),
        Command::Check => check::check(&global),
        Command::Revoke(args) => orders::revoke(&global, args),
        Command::Break(args) => orders::break_lock(&global, &args),
        Command::Freeze(args) => orders::freeze(&global, &args),
        Command::Thaw(args) => orders::thaw(&global, &args),
        Command::Capabilities => capabilities::capabilities(&global),
        Command::Doctor { after_restore } => doctor::doctor(&global, after_restore),
        Command::Setup { print, max_session_timeout } => setup::setup(&global, print, max_session_timeout),
        Command::Server(args) => server::server(&global, (*args).into()),
        Command::Completions { shell } => completions::completions(shell),
        Command::Man => manual::man(),
    }
}

/// Refuses `--json` where there is nothing to print as JSON, so that no reader takes other output for it.
fn refuse_json(command: &Command) -> Result<(), Failure> {
    let name = match command {
        Command::Run(_) => "run",
        Command::Hold(_) => "hold",
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
    let others = "ls, show, deadlocks, gc, check, revoke, break, freeze, thaw, capabilities and doctor do";
    Err(Failure::ours(format!("`{name}` prints no JSON; {others}")))
}
