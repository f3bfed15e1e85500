//! The options of `run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::claim::ClaimArgs;
use crate::run::OnLoss;

/// Run a command while holding a lock
#[derive(Args, Debug)]
#[command(
    override_usage = "lockkeeper run [OPTIONS] NAME -- CMD [ARG]...",
    after_help = "\
Examples:
  lockkeeper run nightly-backup -- ./backup.sh
  lockkeeper run deploy --no-wait -E 0 -- ./deploy.sh  leave quietly if it is in use
  lockkeeper run reports -w 10m -- make reports        wait ten minutes at most
  lockkeeper run -s catalogue -- ./read.sh             share it with other readers
  lockkeeper run -x catalogue -- ./rebuild.sh          keep readers out
  lockkeeper run --permits 3 licence -- ./simulate     at most three at a time
  lockkeeper run --restart queue-worker -- ./worker    one worker in the fleet

The command sees LOCKKEEPER_NAME, LOCKKEEPER_TOKEN, LOCKKEEPER_CONTENDER and LOCKKEEPER_HOLD, and `lockkeeper check` \
in it tells whether the lock is still held. The lock is given back when the command ends, also if it left processes in \
the background. A run without options and one with -x have the lock alone, and keep out those with -s, who share it; \
all of them wait in one line. A name that is in use with --permits, or the other way round, is refused, and so is a \
run of a name under a run of the same name.

When a request to give the lock up comes (`lockkeeper revoke`), or after --max-hold, the command gets TERM, and KILL \
after the grace. With --restart it is run anew under the next grant: after a pause of a second that doubles up to a \
minute and starts over once the command has run for a minute. That goes on until the command ends with 0, or is ended \
by HUP, INT, QUIT or TERM, or lockkeeper itself gets INT or TERM; --wait bounds each wait.

Exit codes:
  the command's own, or 128+n when signal n ended it
  123  the lock was lost, broken by an operator or held for --max-hold,
       and the command was ended
  124  the lock was not acquired in time
  125  lockkeeper failed; a line on stderr says why
  126  the command cannot be executed
  127  there is no such command"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) claim: ClaimArgs,
    /// How long the command may take to end after TERM, before KILL, when the lock is lost, as in 10s; if not given,
    /// 5s, or half of what the session's timeout leaves where that is less
    #[arg(long, value_name = "DUR", value_parser = lockkeeper::parse_duration, allow_negative_numbers = true)]
    pub(crate) grace: Option<Duration>,
    /// What happens to the command when the lock is lost, as in `--on-loss warn`
    #[arg(long, value_enum, default_value_t = OnLoss::Stop)]
    pub(crate) on_loss: OnLoss,
    /// What happens to the command when a request to give the lock up comes, as in `--on-revoke ignore`
    #[arg(long, value_enum, default_value_t = OnRevoke::Stop)]
    pub(crate) on_revoke: OnRevoke,
    /// Queue again and run the command anew after the lock was lost or given up or the command failed, as in
    /// `--restart`; it is over when the command ends with 0, or a signal is meant to end it
    #[arg(long, conflicts_with = "no_wait")]
    pub(crate) restart: bool,
    /// Keep the lock at least this long, also when the command ends sooner, as in `--min-hold 1m`; a signal ends that
    #[arg(long, value_name = "DUR", value_parser = lockkeeper::parse_duration, allow_negative_numbers = true)]
    pub(crate) min_hold: Option<Duration>,
    /// Do not say that the lock is waited for or was not acquired, or what is wrong with the service, as in `-q`
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// The command and its arguments, as in -- ./backup.sh --full
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl RunArgs {
    /// A command under a lock, without options.
    pub(super) const fn of(name: String, command: Vec<OsString>) -> Self {
        Self {
            claim: ClaimArgs::of(name),
            grace: None,
            on_loss: OnLoss::Stop,
            on_revoke: OnRevoke::Stop,
            restart: false,
            min_hold: None,
            quiet: false,
            command,
        }
    }
}

/// What happens to the command when a request to give the lock up comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum OnRevoke {
    /// It is ended, and the lock is given back
    Stop,
    /// It goes on
    Ignore,
}
