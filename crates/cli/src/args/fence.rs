//! The options of `fence`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Run a command unless its token is smaller than the greatest that a file has seen
#[derive(Args, Debug)]
#[command(
    override_usage = "lockkeeper fence [OPTIONS] FILE -- CMD [ARG]...",
    after_help = "\
Example, with a script that may be overtaken by the next holder:
  lockkeeper run nightly-backup -- sh -c '
    ./prepare.sh                                              # may take longer than the lock is held
    lockkeeper fence --name nightly-backup backup.fence -- mv new.tar backup.tar'

FILE keeps the greatest token of each lock. Put one beside each resource, on a file system of this machine. The token \
is taken from LOCKKEEPER_TOKEN, and the lock from LOCKKEEPER_NAME, if that is set; `run` sets both. A smaller token \
than FILE has seen is refused, an equal one passes. A greater one is on the disk before the command starts.

One command a FILE runs at a time: the next waits until this one has ended, and all that it has left in the \
background. The command itself keeps FILE locked, so a kill cannot unlock it sooner. A command that closes files which \
it does not know, as sudo does, unlocks FILE early: put sudo before lockkeeper. A `fence` inside of another with the \
same FILE waits for itself: do not nest them.

Exit codes:
  the command's own
  123  the token is smaller than one that FILE has seen, and the command was not run
  125  lockkeeper failed: no token, another lock, a FILE that is not one; a line says why
  126  the command cannot be executed
  127  there is no such command"
)]
pub(crate) struct FenceArgs {
    /// The file that keeps the greatest token, as in /srv/backup/backup.fence; it is made if it is not there
    pub(crate) file: PathBuf,
    /// Refuse a token that is not of this lock, as in `--name nightly-backup`
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The command and its arguments, as in -- mv new.tar backup.tar
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
