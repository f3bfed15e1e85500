//! `fence`: refuses a token that was overtaken, or becomes the command while the fence's file is locked.
//!
//! There is no process between the caller and the command: signals, the terminal and the exit code are the command's,
//! and a kill cannot unlock the file before the command has ended.

use std::env;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use lockkeeper::fence::{Seen, TokenFile};
use lockkeeper::{FencingToken, QueueName};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use crate::args::FenceArgs;
use crate::exit::{self, CommandFailure};

const TOKEN: &str = "LOCKKEEPER_TOKEN";

const NAME: &str = "LOCKKEEPER_NAME";

/// The least number of the descriptor that the command keeps the file locked with: scripts use smaller ones.
const COMMAND_FD_MIN: i32 = 64;

/// Runs a command behind a fence; returns only if it does not.
pub(super) fn fence(args: &FenceArgs) -> Result<u8, CommandFailure> {
    let name = name(args.name.as_deref())?;
    let token = token()?;
    let mut file = TokenFile::lock(&args.file)?;
    if let Seen::Stale(greatest) = file.see(name.as_ref(), token)? {
        let lock = name.map(|name| format!("{name}: ")).unwrap_or_default();
        let message = format!("{lock}token {token} was overtaken: {} has seen {greatest}", args.file.display());
        return Err(CommandFailure { code: exit::LOST, message });
    }
    let _locked = pass_on(&file).map_err(|error| CommandFailure::ours(format!("{}: {error}", args.file.display())))?;
    become_command(args)
}

/// Returns the lock that the token is of; `None` if nothing says so, and it need not be a certain one.
fn name(wanted: Option<&str>) -> Result<Option<QueueName>, CommandFailure> {
    let wanted = wanted.map(QueueName::new).transpose()?;
    let given = match variable(NAME)? {
        Some(text) => Some(QueueName::new(&text).map_err(|error| CommandFailure::ours(format!("{NAME}: {error}")))?),
        None => None,
    };
    match (wanted, given) {
        (Some(wanted), Some(given)) if wanted != given => Err(CommandFailure::ours(format!(
            "the token is one of the lock `{given}`, and this fence is for `{wanted}`"
        ))),
        (Some(wanted), None) => {
            Err(CommandFailure::ours(format!("{NAME} is not set, so the token may not be one of the lock `{wanted}`")))
        }
        (_, given) => Ok(given),
    }
}

fn token() -> Result<FencingToken, CommandFailure> {
    let text = variable(TOKEN)?.ok_or_else(|| {
        CommandFailure::ours(format!("{TOKEN} is not set: `lockkeeper run` sets it, and `lockkeeper hold` prints it"))
    })?;
    text.parse().map_err(|error| CommandFailure::ours(format!("{TOKEN}: `{text}`: {error}")))
}

fn variable(name: &str) -> Result<Option<String>, CommandFailure> {
    match env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(CommandFailure::ours(format!("{name} is not UTF-8"))),
    }
}

/// Returns a descriptor that the command inherits: the file stays locked while any process has it.
fn pass_on(file: &TokenFile) -> rustix::io::Result<OwnedFd> {
    let descriptor = fcntl_dupfd_cloexec(file, COMMAND_FD_MIN)?;
    fcntl_setfd(&descriptor, FdFlags::empty())?;
    Ok(descriptor)
}

/// Executes the command in this process's place; returns why it could not.
fn become_command(args: &FenceArgs) -> Result<u8, CommandFailure> {
    let [program, arguments @ ..] = &args.command[..] else {
        return Err(CommandFailure::ours("no command to run given"));
    };
    let error = Command::new(program).args(arguments).exec();
    let program = program.display();
    Err(match error.kind() {
        io::ErrorKind::NotFound => {
            CommandFailure { code: exit::NOT_FOUND, message: format!("{program}: command not found") }
        }
        _ => CommandFailure { code: exit::NOT_EXECUTABLE, message: format!("{program}: cannot be executed: {error}") },
    })
}
