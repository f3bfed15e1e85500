//! The options of `run`, `hold` and `fence`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::exit::NOT_ACQUIRED;
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
  lockkeeper run --once-per 1h report -- ./report      from cron on each machine, and once an hour
  lockkeeper run --slot \"$(date +%F)\" bill -- ./bill   once for each day, as this machine counts days

The command sees LOCKKEEPER_NAME, LOCKKEEPER_TOKEN, LOCKKEEPER_CONTENDER and LOCKKEEPER_HOLD, and `lockkeeper check` \
in it tells whether the lock is still held. The lock is given back when the command ends, also if it left processes in \
the background. A run without options and one with -x have the lock alone, and keep out those with -s, who share it; \
all of them wait in one line. A name that is in use with --permits, or the other way round, is refused, and so is a \
run of a name under a run of the same name.

When a request to give the lock up comes (`lockkeeper revoke`), or after --max-hold, the command gets TERM, and KILL \
after the grace. With --restart it is run anew under the next grant: after a pause of a second that doubles up to a \
minute and starts over once the command has run for a minute. That goes on until the command ends with 0, or is ended \
by HUP, INT, QUIT or TERM, or lockkeeper itself gets INT or TERM; --wait bounds each wait.

With --once-per or --slot the first run to get the lock claims the slot before its command starts, and all other runs \
for that slot end with 0 at once, also if that command fails or is killed. With --retry-failed they wait, and the next \
one runs its command if that one did not end with 0. A slot of --once-per that is older than the newest one is refused \
as a lock that was not acquired (-E). LOCKKEEPER_SLOT is the slot. On Redis a failover can lose a claim.

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
    /// Run the command once for each slot of this length, as in `--once-per 1h`: slots begin with 1970 in UTC, and this
    /// machine's clock says which one it is
    #[arg(long, value_name = "DUR", value_parser = period, allow_negative_numbers = true,
          conflicts_with_all = ["restart", "shared", "exclusive", "permits", "counter"])]
    pub(crate) once_per: Option<Duration>,
    /// Run the command once for the slot of this name, as in `--slot 2026-11-28`; the newest 100 are remembered
    #[arg(long, value_name = "SLOT", value_parser = lockkeeper::once::Slot::named,
          conflicts_with_all = ["once_per", "restart", "shared", "exclusive", "permits", "counter"])]
    pub(crate) slot: Option<lockkeeper::once::Slot>,
    /// Run the command for a slot again if it did not end with 0, or its run died, as in `--once-per 1d --retry-failed`
    #[arg(long)]
    pub(crate) retry_failed: bool,
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
            once_per: None,
            slot: None,
            retry_failed: false,
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

/// A lock, what is taken of it, and for how long.
#[derive(Args, Debug)]
pub(crate) struct ClaimArgs {
    /// The lock's name, as in nightly-backup
    pub(crate) name: String,
    /// Take a share of the lock NAME: others may share it at the same time, but no contender has it alone, as in `-s`
    #[arg(short, long)]
    pub(crate) shared: bool,
    /// Take the lock NAME alone, as in `-x`; that is the default. On a ZooKeeper path that is shared with other clients
    /// (`/…`), it is the writing side of their read/write lock, and a run without it takes their mutex
    #[arg(short = 'x', long, conflicts_with = "shared")]
    pub(crate) exclusive: bool,
    /// Take one permit of the semaphore NAME, which has N of them in all, as in `--permits 3`
    #[arg(long, value_name = "N", conflicts_with_all = ["shared", "exclusive"], allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) permits: Option<u32>,
    /// The shared counter that says how many permits NAME has, as in `--counter licences`: raising it lets waiters in,
    /// lowering it takes no permit away. With --permits it is set to N first
    #[arg(long, value_name = "COUNTER", conflicts_with_all = ["shared", "exclusive"])]
    pub(crate) counter: Option<String>,
    /// Do not wait: give up at once if the lock is held or queued for, as in `-n`
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// How long to wait at most, as in 500ms, 2.5s, 1m30s or plain seconds; 0 is --no-wait
    #[arg(short, long, value_name = "DUR", value_parser = lockkeeper::parse_duration, allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,
    /// The exit code when the lock is not acquired in time, as in `-E 0`, with which that is not said either
    #[arg(short = 'E', long, value_name = "N", default_value_t = NOT_ACQUIRED, allow_negative_numbers = true)]
    pub(crate) conflict_exit_code: u8,
    /// Give the lock up when it has been held for this long, as in `--max-hold 1h`, and end with 123
    #[arg(long, value_name = "DUR", value_parser = max_hold, allow_negative_numbers = true)]
    pub(crate) max_hold: Option<Duration>,
}

impl ClaimArgs {
    /// A lock of this name, without options.
    pub(super) const fn of(name: String) -> Self {
        Self {
            name,
            shared: false,
            exclusive: false,
            permits: None,
            counter: None,
            no_wait: false,
            wait: None,
            conflict_exit_code: NOT_ACQUIRED,
            max_hold: None,
        }
    }
}

/// Reads the length of slots, which begin at full seconds.
fn period(text: &str) -> Result<Duration, String> {
    let period = lockkeeper::parse_duration(text).map_err(|error| error.to_string())?;
    match period.subsec_nanos() {
        0 if !period.is_zero() => Ok(period),
        _ => Err("it has to be some full seconds".to_owned()),
    }
}

/// Reads the longest time to hold a lock, which must leave time for some work.
fn max_hold(text: &str) -> Result<Duration, String> {
    let longest = lockkeeper::parse_duration(text).map_err(|error| error.to_string())?;
    if longest.is_zero() { Err("it has to be longer than 0".to_owned()) } else { Ok(longest) }
}

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
