//! The options of `gc`.

use clap::Args;

/// What `gc` removes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockkeeper gc                 print what would be removed, and remove nothing
  lockkeeper gc --yes           remove it
  lockkeeper gc --yes --force   remove contenders too that depend on no session and say no reason

It removes the contenders of dead processes and queues that no client has used for ten minutes, where the service does \
not do so by itself. Each is looked at again: what is in use by then stays. A lock that lives or is frozen, and a \
queue that has a value, is never removed.

Exit codes: 0 done, or there was nothing to do, 125 lockkeeper failed, or was built without the feature `monitor`.")]
pub(crate) struct GcArgs {
    /// Remove it, as in `gc --yes`
    #[arg(long)]
    pub(crate) yes: bool,
    /// Remove contenders too that depend on no session and say no reason why they stand, as in `gc --yes --force`;
    /// whose they are is not known
    #[arg(long)]
    pub(crate) force: bool,
}
