//! What can be written on the command line, and what is said when it cannot be.
//!
//! Options that do not work yet are not here. What a name or a URL may be is not decided here.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `run` | the options of `run` |
//! | `orders` | those of `revoke`, `break`, `freeze` and `thaw` |
//! | `refusal` | what is said of a command line that cannot be read |

mod orders;
mod refusal;
mod run;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

pub(crate) use orders::{BreakArgs, FreezeArgs, Kind, RevokeArgs, ThawArgs};
pub(crate) use run::{OnLoss, OnRevoke, RunArgs};

use crate::exit::Failure;

/// Run a command under a lock, and see who holds and who waits.
#[derive(Debug, Parser)]
#[command(
    name = "lockkeeper",
    version,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  lockkeeper run nightly-backup -- ./backup.sh     run it when nobody else does
  lockkeeper show nightly-backup                   see who holds and who waits

Without --connect, LOCKKEEPER_URL or a config file, locks are files of this machine.
Exit code 125 means that lockkeeper itself failed; a line on stderr says why."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The service to use, as in --connect file:/srv/locks; a URL with a password belongs into LOCKKEEPER_URL
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) connect: Option<String>,
    /// The config file to read, as in --config /etc/backup/lockkeeper.toml
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON, as in `lockkeeper --json ls`
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say which service is used and what happens, as in `lockkeeper -v run x -- true`
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    /// List the locks in use
    #[command(after_help = "Example: lockkeeper ls reports/")]
    Ls {
        /// Only those whose names begin so, as in reports/
        prefix: Option<String>,
    },
    /// Show who holds a lock and who waits for it
    #[command(after_help = "\
Examples:
  lockkeeper show nightly-backup
  lockkeeper show nightly-backup --watch            again at each change, until a signal ends it
  lockkeeper show nightly-backup --watch --json     one JSON document a line for each change")]
    Show {
        /// The lock's name, as in nightly-backup
        name: String,
        /// Show it again whenever it changes, as in `show nightly-backup --watch`
        #[arg(long)]
        watch: bool,
    },
    /// Wait until nobody holds a lock or queues for it
    #[command(after_help = "\
Example: lockkeeper wait nightly-backup -w 10m
Exit codes: 0 nobody has it, 124 the time was up, 125 lockkeeper failed.")]
    Wait {
        /// The lock's name, as in nightly-backup
        name: String,
        /// How long at most, as in 500ms, 2.5s, 1m or plain seconds
        #[arg(short, long, value_name = "DUR", value_parser = lockkeeper::parse_duration, allow_negative_numbers = true)]
        wait: Option<Duration>,
    },
    /// Tell, inside of `run`, whether the lock is still held
    #[command(after_help = "\
Example, in a script under `lockkeeper run`: lockkeeper check || exit 1
Exit codes: 0 held, 1 not held, 125 cannot tell.")]
    Check,
    Revoke(RevokeArgs),
    Break(BreakArgs),
    Freeze(FreezeArgs),
    Thaw(ThawArgs),
    /// Say what the service promises
    #[command(after_help = "Example: lockkeeper capabilities --connect file:/srv/locks")]
    Capabilities,
    /// Run a ZooKeeper server for this machine
    #[command(after_help = "\
Example: lockkeeper server --data-dir /srv/zookeeper
It speaks ZooKeeper's client protocol, for Lockkeeper, Curator, kazoo and others, on one machine; for more than one
machine, run Apache ZooKeeper. TERM stops it in order.")]
    Server {
        /// Where to listen, as in 127.0.0.1:2181; port 0 is any free one
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:2181")]
        listen: SocketAddr,
        /// Where to keep the data; without it, in memory until the end
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
        /// The tick: session timeouts lie between 2 and 20 of it, as in 500ms
        #[arg(long, value_name = "DUR", default_value = "2s", value_parser = tick)]
        tick: Duration,
    },
    /// Print the completions for a shell
    #[command(after_help = "Example: lockkeeper completions bash > /etc/bash_completion.d/lockkeeper")]
    Completions {
        /// The shell, as in bash
        shell: clap_complete::Shell,
    },
    /// Print the manual pages
    #[command(after_help = "Example: lockkeeper man | man -l -")]
    Man,
}

/// What was asked for.
#[derive(Debug)]
pub(crate) enum Request {
    /// A command.
    Do(Cli),
    /// A text, such as the help.
    Print(String),
}

/// Reads the command line.
///
/// # Errors
///
/// One line that says what is wrong with it.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Request, Failure> {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => Ok(Request::Do(cli)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(Request::Print(help_text(&error))),
            _ => Err(Failure::ours(refusal::describe(&error))),
        },
    }
}

/// Reads a tick; one of less than a millisecond cannot be told to clients.
fn tick(text: &str) -> Result<Duration, String> {
    let tick = lockkeeper::parse_duration(text).map_err(|error| error.to_string())?;
    if tick < Duration::from_millis(1) { Err("a tick has at least a millisecond".to_owned()) } else { Ok(tick) }
}

fn help_text(error: &clap::Error) -> String {
    use std::io::IsTerminal as _;

    let text = error.render();
    if std::io::stdout().is_terminal() { text.ansi().to_string() } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn read(line: &str) -> Result<Request, Failure> {
        parse(line.split(' ').map(OsString::from))
    }

    fn run(line: &str) -> RunArgs {
        match read(line) {
            Ok(Request::Do(Cli { command: Command::Run(args), .. })) => args,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_stand_before_or_after_the_name_and_the_command_keeps_its_own() {
        for line in [
            "lockkeeper run nightly -x -w 2.5s -E 7 --grace 10 --on-loss warn -q -- sh -c -n --json",
            "lockkeeper run -x -q --wait 2500ms --conflict-exit-code 7 --on-loss=warn --grace 10s nightly -- sh -c -n --json",
        ] {
            let args = run(line);
            assert_eq!(args.name, "nightly");
            assert_eq!(args.wait, Some(Duration::from_millis(2_500)));
            assert_eq!(args.conflict_exit_code, 7);
            assert_eq!(args.grace, Some(Duration::from_secs(10)));
            assert_eq!(args.on_loss, OnLoss::Warn);
            assert!(args.quiet && !args.no_wait);
            assert_eq!(args.command, ["sh", "-c", "-n", "--json"]);
        }
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        let args = run("lockkeeper run x -- true");
        assert_eq!((args.wait, args.no_wait, args.conflict_exit_code), (None, false, 124));
        assert_eq!((args.grace, args.on_loss), (None, OnLoss::Stop));
    }

    #[test]
    fn global_options_stand_anywhere() {
        for line in ["lockkeeper --json -v --connect memory: ls", "lockkeeper ls --json -v --connect memory:"] {
            let Ok(Request::Do(cli)) = read(line) else { panic!("{line}") };
            assert!(cli.global.json && cli.global.verbose);
            assert_eq!(cli.global.connect.as_deref(), Some("memory:"));
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line_that_names_it() {
        for (line, word) in [
            ("lockkeeper", "`lockkeeper --help`"),
            ("lockkeeper run x --", "after `--`"),
            ("lockkeeper run x", "after `--`"),
            ("lockkeeper run x true", "after `--`"),
            ("lockkeeper run", "name"),
            ("lockkeeper run x -w abc -- true", "--wait <DUR>: `abc` is not a duration"),
            ("lockkeeper run x -w -1 -- true", "`-1` is not a duration"),
            ("lockkeeper run x --grace 1y -- true", "--grace"),
            ("lockkeeper run x -n -w 1 -- true", "--no-wait"),
            ("lockkeeper run x -E 256 -- true", "256"),
            ("lockkeeper run x --on-loss explode -- true", "stop, warn"),
            ("lockkeeper run x --wiat 3 -- true", "--wait"),
            ("lockkeeper run x -s -x -- true", "--shared"),
            ("lockkeeper run x -s --permits 2 -- true", "--permits"),
            ("lockkeeper run x -x --permits 2 -- true", "--permits"),
            ("lockkeeper run x --permits 0 -- true", "--permits <N>: 0 is not in 1.."),
            ("lockkeeper run x --permits -1 -- true", "--permits <N>: -1 is not in 1.."),
            ("lockkeeper rnu x -- true", "'rnu'; `lockkeeper --help`"),
            ("lockkeeper run x --restart -n -- true", "--restart"),
            ("lockkeeper run x --max-hold 0 -- true", "--max-hold <DUR>: in no time"),
            ("lockkeeper run x --on-revoke maybe -- true", "stop, ignore"),
            ("lockkeeper show", "name"),
            ("lockkeeper break x", "`lockkeeper show x`"),
            ("lockkeeper break x --token abc", "--token <TOKEN>: "),
            ("lockkeeper break x --token -1", "--token <TOKEN>: "),
            ("lockkeeper freeze x", "--reason"),
            ("lockkeeper freeze x --reason \n", "--reason <REASON>: it is empty"),
            ("lockkeeper freeze x --reason y --kind barrier", "mutex, rwlock"),
            ("lockkeeper completions tcsh2", "bash"),
        ] {
            let failure = read(line).expect_err(line);
            assert_eq!(failure.code, 125, "{line}");
            assert!(!failure.message.contains('\n'), "{line}: {}", failure.message);
            assert!(failure.message.contains(word), "{line}: {}", failure.message);
        }
    }

    #[test]
    fn help_and_version_are_no_failures_and_every_command_has_an_example() {
        assert!(matches!(read("lockkeeper --version"), Ok(Request::Print(text)) if text.starts_with("lockkeeper ")));
        for command in [
            "run",
            "ls",
            "show",
            "wait",
            "check",
            "revoke",
            "break",
            "freeze",
            "thaw",
            "capabilities",
            "server",
            "completions",
            "man",
        ] {
            let Ok(Request::Print(text)) = read(&format!("lockkeeper {command} --help")) else { panic!("{command}") };
            assert!(text.contains("Example"), "{command}: {text}");
        }
    }
}
