//! The command line: its commands, and the options of every command.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use lockkeeper_console::args::{BreakArgs, FreezeArgs, HistoryArgs, MonitorArgs, RevokeArgs, ThawArgs};

use super::run::ClaimArgs;
use super::run::FenceArgs;
use super::run::RunArgs;
use crate::config::{Global, ServerSettings};

/// Run a command under a lock, and see who holds and who waits.
#[derive(Debug, Parser)]
#[command(
    name = "lockkeeper",
    version,
    after_help = "\
Examples:
  lockkeeper run nightly-backup -- ./backup.sh     run it, one at a time
  lockkeeper show nightly-backup                   see who holds and who waits

Without --connect, LOCKKEEPER_URL or a config file, locks are files of this machine. Exit code 125 means that \
lockkeeper itself failed; a line on stderr says why."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands. Only the one that is asked for is defined in full: that is part of each command's start.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Run a command while holding a lock
    Run(RunArgs),
    /// Hold a lock without a command, until stdin ends
    #[command(after_help = "\
Prefer `lockkeeper run`: it ends its command when the lock is lost. This cannot stop the script around it, which may \
go on while another client is granted the lock; have it read what is printed, and send the token with its writes.

Example, in a script that holds the lock for some of its steps:
  mkfifo lock.in lock.out
  lockkeeper hold nightly-backup <lock.in >lock.out &
  exec 3>lock.in 4<lock.out            # held until 3 is closed, or the script and all that it has started end
  read -r token <&4 || exit 1          # nothing to read: it was not acquired
  echo \"backing up with token $token\"
  exec 3>&-                            # gives the lock back
  wait
  rm lock.in lock.out

What the script starts has descriptor 3 too, and keeps the lock as long as it lives. Start with 3 closed what goes on \
in the background: `cmd 3>&- &`.

The token is printed in one line on stdout once the lock is held. It is given back when stdin ends, at HUP, INT and \
TERM, and when a request to give the lock up comes (`lockkeeper revoke`). When the lock is lost, a line `lost REASON` \
is printed.

Exit codes:
  0     stdin ended, and the lock was given back
  123   the lock was lost, broken by an operator or held for --max-hold
  124   the lock was not acquired in time
  125   lockkeeper failed, or stdin was closed at the start; a line says why
  128+n signal n ended it; 143, as by TERM, if the lock was revoked")]
    Hold {
        #[command(flatten)]
        claim: ClaimArgs,
    },
    /// Run a command unless its token is smaller than the greatest that a file has seen
    Fence(FenceArgs),
    /// List the locks in use
    #[command(after_help = "Example: lockkeeper ls reports/")]
    Ls {
        /// Only names that begin like this, as in reports/
        prefix: Option<String>,
        /// Print the names alone, one a line, and nothing if the service does not answer at once: for shells that
        /// complete them
        #[arg(long, hide = true)]
        names: bool,
    },
    /// Show who holds a lock and who waits for it
    #[command(after_help = "\
Examples:
  lockkeeper show nightly-backup
  lockkeeper show nightly-backup --watch         again at each change, until a signal
  lockkeeper show nightly-backup --watch --json  one line of JSON for each change")]
    Show {
        /// The lock's name, as in nightly-backup
        name: String,
        /// Show it again at each change, as in `show nightly-backup --watch`
        #[arg(long)]
        watch: bool,
    },
    /// Wait until a lock is free and has no waiters
    #[command(after_help = "\
Example: lockkeeper wait nightly-backup -w 10m

It takes no part, and works for users who may only look.

Exit codes: 0 it is free, 124 the time was up, 125 lockkeeper failed.")]
    Wait {
        /// The lock's name, as in nightly-backup
        name: String,
        /// How long at most, as in 500ms, 2.5s, 1m30s or plain seconds
        #[arg(
            short,
            long,
            value_name = "DUR",
            value_parser = lockkeeper::parse_duration,
            allow_negative_numbers = true
        )]
        wait: Option<Duration>,
    },
    /// Find contenders that wait for each other, so that none of them goes on
    #[command(after_help = "\
Examples:
  lockkeeper deadlocks
  lockkeeper deadlocks --json --connect zk://zk1:2181

It takes no part. What it finds it confirms by a second look, a second later. A deadlock is known where contenders are \
of one owner key, thread or task, or one is run under the lock of another. It is only possible where no more is known \
than that they are of one process or session, as with clients of other makes, or under one run. It says who waits for \
whom, and how an operator ends it.

Exit codes: 0 none is known, 1 one is, 125 lockkeeper failed, or was built without the feature `monitor`.")]
    Deadlocks,
    /// Serve what is known of all locks, by HTTP
    Monitor(Box<MonitorArgs>),
    /// Tell who held a lock and when, as a monitor remembers it
    History(Box<HistoryArgs>),
    /// Watch the busiest locks on a terminal, and revoke, break, freeze and thaw them
    #[command(after_help = "\
Examples:
  lockkeeper top
  lockkeeper top --connect zk://zk1:2181

What is wrong comes first: deadlocks with their way out, locks held for long, a service that cannot be asked. Enter \
shows a queue, / filters, s sorts, ? shows all keys, q quits. The keys r, f, t and b revoke, freeze, thaw and break; \
each asks first, and meets the contender that was seen or none.

It takes no part, and needs a terminal of 40 x 10 at least. TERM stops it.

Exit codes: 0 q was pressed, 130 Ctrl-C was, 125 lockkeeper failed, has no terminal, or was built without the \
feature `top`.")]
    Top,
    /// Print what dead users have left at the service, and remove it with --yes
    #[command(after_help = "\
Examples:
  lockkeeper gc                 print what would be removed, and remove nothing
  lockkeeper gc --yes           remove it
  lockkeeper gc --yes --force   remove contenders too that depend on no session and say no reason

It removes the contenders of dead processes and queues that no client has used for ten minutes, where the service does \
not do so by itself. Each is looked at again: what is in use by then stays. A lock that lives or is frozen, and a \
queue that has a value, is never removed.

Exit codes: 0 done, or there was nothing to do, 125 lockkeeper failed, or was built without the feature `monitor`.")]
    Gc {
        /// Remove it, as in `gc --yes`
        #[arg(long)]
        yes: bool,
        /// Remove contenders too that depend on no session and say no reason why they stand, as in `gc --yes --force`;
        /// whose they are is not known
        #[arg(long)]
        force: bool,
    },
    /// Tell, inside of `run`, whether the lock is still held
    #[command(after_help = "\
Example, in a script under `lockkeeper run`: lockkeeper check || exit 1

Exit codes: 0 held, 1 not held, 125 cannot tell.")]
    Check,
    /// Ask the holders of a lock to give it up
    Revoke(RevokeArgs),
    /// Take a lock away from the holder with this token
    Break(BreakArgs),
    /// Keep all contenders out of a lock until `thaw`, also after this command has ended
    Freeze(FreezeArgs),
    /// Let contenders take a frozen lock again
    Thaw(ThawArgs),
    /// Say what the service promises, or all services
    #[command(after_help = "\
Examples:
  lockkeeper capabilities                       what each service promises
  lockkeeper capabilities --connect etcd://h1   what is left of it there, once it was examined

A service that LOCKKEEPER_URL or a config file names is examined too, as by --connect.")]
    Capabilities,
    /// Examine the service, and say what to do about what is found
    #[command(after_help = "\
Examples:
  lockkeeper doctor --connect zk://zk1:2181
  lockkeeper doctor --connect redis+sentinel://s1,s2,s3/main
  lockkeeper doctor --connect etcd://h1 --after-restore   once, after the service's data were restored

Exit codes: 0 nothing but notes, 1 warnings, 2 errors, 125 a bad option.")]
    Doctor {
        /// Tell the service first that its data were restored: etcd counts fencing tokens anew; a database grants no
        /// lock until every session of before has run out
        #[arg(long)]
        after_restore: bool,
    },
    /// Check that no lock broke a promise, by the histories that programs wrote
    #[command(after_help = "\
Examples:
  lockkeeper verify locks.jsonl                     one file, of one process or many
  lockkeeper verify web-1.jsonl web-2.jsonl --clocks-differ 50ms

Programs write a history with `lockkeeper::history::HistoryFile`. Two holders at once, a token that comes twice and a \
token that falls are found. Times of one machine are compared exactly, those of two as far as their clocks agree. \
Lines that were torn, as by a full disk, are counted and left out.

Exit codes: 0 no promise was broken, 1 one was, 125 a file cannot be read or has no history.")]
    Verify {
        /// By how much the wall clocks of two machines differ at most
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = lockkeeper::parse_duration)]
        clocks_differ: Duration,
        /// The files, of one service
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Make what the service needs before the first lock: the schema of a database
    #[command(after_help = "\
Examples:
  lockkeeper setup --connect postgres://admin@db1/app           make the schema, or bring it up to this version
  lockkeeper setup --print --connect mariadb://db1 > setup.sql  for an operator who makes it by hand
  lockkeeper setup --connect mariadb://db1 --max-session-timeout 2m

It needs the rights of an administrator. Users of locks need less; what is printed ends with their rights. What is \
there stays. A service that needs nothing says so.")]
    Setup {
        /// Only print what would be made, in the service's own language; nothing is connected to
        #[arg(long, conflicts_with = "max_session_timeout")]
        print: bool,
        /// The longest session timeout that clients may have, 60s at first. After a loss of data no lock is granted for
        /// so long
        #[arg(long, value_name = "DURATION", value_parser = lockkeeper::parse_duration)]
        max_session_timeout: Option<Duration>,
    },
    /// Run a ZooKeeper server for this machine
    Server(Box<ServerSettings>),
    /// Print the completions for a shell
    #[command(after_help = "\
Example: lockkeeper completions bash > /etc/bash_completion.d/lockkeeper

In bash, zsh and fish they offer the names of the locks in use too.")]
    Completions {
        /// The shell, as in bash
        shell: clap_complete::Shell,
    },
    /// Print the manual pages
    #[command(after_help = "Example: lockkeeper man | man -l -")]
    Man,
}
