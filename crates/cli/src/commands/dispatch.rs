//! From the command line to the command, and from its end to the exit code.

use std::process::ExitCode;
use std::time::Duration;

use lockkeeper::Keeper;
use rustix::process::{Resource, getrlimit};
use tokio::runtime;
use tokio::time::timeout;

use super::{check, completions, hold, look, manual, orders, run, server, wait, watch};
use crate::args::{self, Cli, Command, Global, Request};
use crate::config::ServerSettings;
use crate::exit::Failure;
use crate::output;
use crate::voice::{Talk, say};

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
        Command::Ls { prefix, names: false } => look::ls(&global, prefix.as_deref().unwrap_or_default()),
        Command::Ls { prefix, names: true } => look::names(&global, prefix.as_deref().unwrap_or_default()),
        Command::Show { name, watch: false } => look::show(&global, &name),
        Command::Show { name, watch: true } => watch::watch(&global, &name),
        Command::Wait { name, wait } => wait::wait(&global, &name, wait),
        Command::Check => check::check(&global),
        Command::Revoke(args) => orders::revoke(&global, args),
        Command::Break(args) => orders::break_lock(&global, &args),
        Command::Freeze(args) => orders::freeze(&global, &args),
        Command::Thaw(args) => orders::thaw(&global, &args),
        Command::Capabilities => look::capabilities(&global),
        Command::Server { listen, data_dir, tick } => {
            server::server(&global, ServerSettings { listen, data_dir, tick })
        }
        Command::Completions { shell } => completions::completions(shell),
        Command::Man => manual::man(),
    }
}

/// Refuses `--json` where there is nothing to print as JSON, so that no reader takes other output for it.
fn refuse_json(command: &Command) -> Result<(), Failure> {
    let name = match command {
        Command::Run(_) => "run",
        Command::Hold(_) => "hold",
        Command::Wait { .. } => "wait",
        Command::Server { .. } => "server",
        Command::Completions { .. } => "completions",
        Command::Man => "man",
        _ => return Ok(()),
    };
    let others = "ls, show, check, revoke, break, freeze, thaw and capabilities do";
    Err(Failure::ours(format!("`{name}` prints no JSON; {others}")))
}

/// Returns how much is printed.
pub(super) fn talk(global: &Global) -> Talk {
    if global.verbose { Talk::Verbose } else { Talk::Normal }
}

/// Refuses to begin where too few files may be opened.
fn require_files() -> Result<(), Failure> {
    let free: Result<Vec<_>, _> =
        (0..RUNTIME_FILES).map(|_| rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 0)).collect();
    free.map(drop).map_err(|error| {
        let limit = getrlimit(Resource::Nofile).current;
        let most = limit.map_or_else(String::new, |most| format!(" more than {most}"));
        Failure::ours(format!("this process may not open{most} files: raise the limit, ulimit -n: {error}"))
    })
}

/// How long the end may wait until the service is told; after that it is left to the end of the session.
pub(super) const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Runs a future that uses `keeper` to its end on this thread, and closes the keeper's sessions.
pub(super) fn block_on_closing<Output>(
    keeper: &Keeper,
    future: impl Future<Output = Output>,
) -> Result<Output, Failure> {
    block_on(async {
        let output = future.await;
        // What cannot be closed in time ends by itself.
        let _ = timeout(CLOSE_MAX, keeper.close()).await;
        output
    })
}

/// How many files are to be free before the asynchronous runtime is started: it panics if it cannot open its own, and
/// opens six.
const RUNTIME_FILES: usize = 8;

/// Runs a future to its end on this thread. What it left under way is not waited for.
pub(super) fn block_on<Output>(future: impl Future<Output = Output>) -> Result<Output, Failure> {
    require_files()?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|error| Failure::ours(format!("cannot start the asynchronous runtime: {error}")))?;
    let output = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(output)
}
