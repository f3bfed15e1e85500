//! The base of all commands: the keeper that the settings name, the runtime that its calls need, and how an answer is
//! printed.

use std::time::Duration;

use lockkeeper::Keeper;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use tokio::runtime;
use tokio::time::timeout;

use crate::config::Global;
use crate::config::ServiceSettings;
use crate::exit::CommandFailure;
use crate::output::{self, say};
use crate::voice::Talk;

pub(super) fn answer(
    global: &Global,
    answer: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<u8, CommandFailure> {
    let printed = if global.json { output::print_json(answer) } else { output::print(&text()) };
    printed.map(|()| 0)
}

pub(super) fn open(global: &Global) -> Result<Keeper, CommandFailure> {
    open_by(global, &ServiceSettings::load(global)?)
}

pub(super) fn open_by(global: &Global, settings: &ServiceSettings) -> Result<Keeper, CommandFailure> {
    let keeper = settings.keeper()?.build();
    if global.verbose {
        say(&format!("using {}", keeper.service()));
    }
    Ok(keeper)
}

pub(super) fn talk(global: &Global) -> Talk {
    if global.verbose { Talk::Verbose } else { Talk::Normal }
}

/// Refuses to begin where too few files may be opened.
fn require_files() -> Result<(), CommandFailure> {
    let free: Result<Vec<_>, _> =
        (0..RUNTIME_FILES).map(|_| rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 0)).collect();
    free.map(drop).map_err(|error| {
        let limit = getrlimit(Resource::Nofile).current;
        let most = limit.map_or_else(String::new, |most| format!(" more than {most}"));
        CommandFailure::ours(format!("this process may not open{most} files: raise the limit, ulimit -n: {error}"))
    })
}

/// How long the end may wait until the service is told; after that it is left to the end of the session.
pub(super) const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Runs a future that uses `keeper` to its end on this thread, and closes the keeper's sessions.
pub(super) fn block_on_closing<Output>(
    keeper: &Keeper,
    future: impl Future<Output = Output>,
) -> Result<Output, CommandFailure> {
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
pub(super) fn block_on<Output>(future: impl Future<Output = Output>) -> Result<Output, CommandFailure> {
    require_files()?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|error| CommandFailure::ours(format!("cannot start the asynchronous runtime: {error}")))?;
    let output = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(output)
}
