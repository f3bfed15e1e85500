//! The options of `monitor` and `history`, and of an operator's orders: `revoke`, `break`, `freeze` and `thaw`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use lockkeeper::{FencingToken, LockKind};
use serde::Deserialize;

use crate::config::Listen;

/// The longest reason, in bytes: a few sentences, which are shown to every waiter.
const REASON_BYTES_MAX: usize = 500;

/// Ask the holders of a lock to give it up
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockkeeper revoke nightly-backup --reason 'deploying'
  lockkeeper revoke nightly-backup -w 30s        and wait until it was given up

It is a request. `lockkeeper run` ends its command for it, unless it was started with --on-revoke ignore.

Exit codes: 0 they were asked and, with --wait, have given it up; 124 they have not in time; 125 lockkeeper failed.")]
pub struct RevokeArgs {
    /// The lock's name, as in nightly-backup
    pub name: String,
    /// Why, for the holders who are asked, as in --reason 'deploying'
    #[arg(long, value_name = "REASON", value_parser = reason)]
    pub reason: Option<String>,
    /// Within which time it is to be given up, as in 30s: the command waits for that; without it, it does not wait
    #[arg(short, long, value_name = "DUR", value_parser = lockkeeper::parse_duration, allow_negative_numbers = true)]
    pub wait: Option<Duration>,
}

/// Take a lock away from the holder with this token
#[derive(Args, Debug)]
#[command(after_help = "\
Example: lockkeeper break nightly-backup --token 4294967338

The token is the one that `lockkeeper show` shows for the holder; if another client holds the lock now, nothing is \
changed. The next in line is granted the lock at once, while what the holder runs may go on for a moment: \
`lockkeeper run` ends its command and exits with 123. Better ask first: lockkeeper revoke nightly-backup

Exit codes: 0 it is broken, 125 lockkeeper failed, or no holder has this token.")]
pub struct BreakArgs {
    /// The lock's name, as in nightly-backup
    pub name: String,
    /// The holder's token, as `lockkeeper show nightly-backup` shows it
    #[arg(long, value_name = "TOKEN", allow_negative_numbers = true)]
    pub token: FencingToken,
}

/// Keep all contenders out of a lock until `thaw`, also after this command has ended
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockkeeper freeze nightly-backup --reason 'moving disks until noon'
  lockkeeper freeze catalogue --kind rwlock --reason 'new schema' -w 5m

It queues like any other contender and waits until those who hold the lock have given it back; those who come later \
wait behind it, and are shown the reason. Clients of other makes are kept out too.

Exit codes: 0 it is frozen, 124 it was not given back in time, 125 lockkeeper failed, or it is frozen already.")]
pub struct FreezeArgs {
    /// The lock's name, as in nightly-backup
    pub name: String,
    /// Why, for the waiters, as in --reason 'moving disks'
    #[arg(long, value_name = "REASON", value_parser = reason)]
    pub reason: String,
    /// What kind of lock it is, as in --kind rwlock; if not given, what it is used as now, or else a mutex
    #[arg(long, value_enum)]
    pub kind: Option<FreezableKind>,
    /// How long to wait at most until it is given back, as in 5m
    #[arg(short, long, value_name = "DUR", value_parser = lockkeeper::parse_duration, allow_negative_numbers = true)]
    pub wait: Option<Duration>,
}

/// Let contenders take a frozen lock again
#[derive(Args, Debug)]
#[command(after_help = "Example: lockkeeper thaw nightly-backup")]
pub struct ThawArgs {
    /// The lock's name, as in nightly-backup
    pub name: String,
}

/// A kind of lock that can be frozen.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum FreezableKind {
    /// Held by one at a time
    Mutex,
    /// Shared by readers, or held by one writer
    Rwlock,
    /// A number of permits
    Semaphore,
    /// One leader and its candidates
    Election,
}

impl FreezableKind {
    /// Returns it as the library names it.
    pub const fn of_lock(self) -> LockKind {
        match self {
            Self::Mutex => LockKind::Mutex,
            Self::Rwlock => LockKind::ReadWrite,
            Self::Semaphore => LockKind::Semaphore,
            Self::Election => LockKind::Election,
        }
    }
}

/// Reads a reason.
pub fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.len() > REASON_BYTES_MAX {
        return Err(format!("it has {} bytes, more than {REASON_BYTES_MAX}", text.len()));
    }
    if text.contains(char::is_control) {
        return Err("it has a control character".to_owned());
    }
    Ok(text.to_owned())
}

/// Serve what is known of all locks, by HTTP
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lockkeeper monitor
  lockkeeper monitor --listen 127.0.0.1:9142 --lock-metrics 'nightly-*' --connect zk://zk1:2181

  http://127.0.0.1:9142/                          the page, for a browser
  curl http://127.0.0.1:9142/api/locks            holders, and how many wait
  curl http://127.0.0.1:9142/api/locks/NAME       one lock with its queue
  curl http://127.0.0.1:9142/api/locks/NAME/history   who held it
  curl http://127.0.0.1:9142/api/events           what has happened
  curl http://127.0.0.1:9142/api/deadlocks        who waits for whom
  curl http://127.0.0.1:9142/metrics              for Prometheus
  curl http://127.0.0.1:9142/healthz              503 while the service cannot be asked

  lockkeeper monitor --operate --operate-token-file /etc/lockkeeper/operate-token

It takes part in no lock. It changes nothing, unless it is started with --operate: then those who have the token may \
revoke, break, freeze and thaw locks, on the page and by programs. TERM stops it.")]
pub struct MonitorArgs {
    /// Where to listen, as in 127.0.0.1:9142, which is the default, localhost:9142 or 9142; port 0 is any free one
    #[arg(long, value_name = "ADDR", value_parser = Listen::parse, default_value = "127.0.0.1:9142")]
    pub listen: Listen,
    /// A lock beside those of the service's base, as in --also /kazoo/locks/nightly; may be given several times
    #[arg(long, value_name = "NAME")]
    pub also: Vec<String>,
    /// Locks whose metrics have their names, as in --lock-metrics 'nightly-*'; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub lock_metrics: Vec<String>,
    /// A file that keeps the alerts over a restart, so that none is told twice; of this monitor alone
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// A directory that keeps the history over a restart, of this monitor alone; 256 MiB at most
    #[arg(long, value_name = "DIR")]
    pub history: Option<PathBuf>,
    /// Carry out orders of those who have the token: revoke, break, freeze, thaw; beyond loopback only with TLS
    #[arg(long)]
    pub operate: bool,
    /// A file with the token, which its owner alone can read; without it, LOCKKEEPER_OPERATE_TOKEN has the token
    #[arg(long, value_name = "FILE", requires = "operate")]
    pub operate_token_file: Option<PathBuf>,
    /// Where a proxy has the page for browsers, with its scheme: requests for this host are answered too
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
}

/// Tell who held a lock and when, as a monitor remembers it
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("question").args(["name", "at", "holder", "longest", "waits"]))]
#[command(after_help = "\
Examples:
  lockkeeper history nightly-backup --since 2h     who held it, and who waited for long
  lockkeeper history --at 03:12                    who held what then, in UTC
  lockkeeper history --holder web-3                what this host held
  lockkeeper history --longest 10                  the longest holds of the last hour
  lockkeeper history nightly-backup --json > h.jsonl; lockkeeper verify h.jsonl

It asks a running `lockkeeper monitor`, which remembers what it saw. Where a service is looked at again and again, \
short holds may be missing; the answer says how short, of a lock how many, since when it knows, and when nothing was \
seen.

Exit codes: 0 it was answered, 125 there is no answer, or lockkeeper was built without the feature `monitor`.")]
pub struct HistoryArgs {
    /// The lock's name, as in nightly-backup; without it, the longest holds of all locks
    pub name: Option<String>,
    /// How far back, as in 30m, 2h or 1d
    #[arg(long, value_name = "DUR", default_value = "1h", value_parser = lockkeeper::parse_duration)]
    pub since: Duration,
    /// Who held what at a moment, in UTC, as in --at 03:12 or --at 2026-11-29T03:12:00Z
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// What a host held, as in --holder web-3
    #[arg(long, value_name = "HOST")]
    pub holder: Option<String>,
    /// So many of the longest holds, as in --longest 10
    #[arg(long, value_name = "N")]
    pub longest: Option<usize>,
    /// So many of the longest waits, as in --waits 10
    #[arg(long, value_name = "N")]
    pub waits: Option<usize>,
    /// Where the monitor is
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9142")]
    pub monitor: String,
}
