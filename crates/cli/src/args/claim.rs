//! Arguments of `run` and `hold`: the lock, and how long it is waited for and held.

use std::time::Duration;

use clap::Args;

use crate::exit::NOT_ACQUIRED;

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

/// Reads the longest time to hold a lock, which must leave time for some work.
fn max_hold(text: &str) -> Result<Duration, String> {
    let longest = lockkeeper::parse_duration(text).map_err(|error| error.to_string())?;
    if longest.is_zero() { Err("it has to be longer than 0".to_owned()) } else { Ok(longest) }
}
