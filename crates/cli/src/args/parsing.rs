//! From the arguments of a command line to a request, or to the message for one that cannot be read.

use std::ffi::OsString;

use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::definition::{Cli, Command};
use super::run::RunArgs;
use crate::config::Global;
use crate::exit::CommandFailure;

/// What was asked for.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "each process has one")]
pub(crate) enum CliRequest {
    /// A command.
    Do(Cli),
    /// A text, such as the help.
    Print(String),
}

/// Reads the command line.
/// Fails with one line that says what is wrong with it.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<CliRequest, CommandFailure> {
    let arguments: Vec<_> = arguments.into_iter().collect();
    if let Some(cli) = plain_run(&arguments) {
        return Ok(CliRequest::Do(cli));
    }
    match Cli::try_parse_from(arguments) {
        Ok(cli) => Ok(CliRequest::Do(cli)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(CliRequest::Print(help_text(&error))),
            _ => Err(CommandFailure::ours(describe(&error))),
        },
    }
}

/// Reads `run NAME -- CMD [ARG]...` without options, in which there is nothing to refuse.
///
/// It is what scripts start again and again. To define all options takes time, and leaves memory that the forks of
/// such a command then copy page by page.
fn plain_run(arguments: &[OsString]) -> Option<Cli> {
    let [_, step, name, dashes, command @ ..] = arguments else { return None };
    let name = name.to_str().filter(|name| !name.is_empty() && !name.starts_with('-'))?;
    if step != "run" || dashes != "--" || command.is_empty() {
        return None;
    }
    let args = RunArgs::of(name.to_owned(), command.to_vec());
    Some(Cli { global: Global::default(), command: Command::Run(args) })
}

fn help_text(error: &clap::Error) -> String {
    use std::io::IsTerminal as _;

    let text = error.render();
    if std::io::stdout().is_terminal() { text.ansi().to_string() } else { text.to_string() }
}

/// Says in one line what clap says in several.
pub(super) fn describe(error: &clap::Error) -> String {
    let argument = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => vec![argument.as_str()],
        Some(ContextValue::Strings(arguments)) => arguments.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    match error.kind() {
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "no command given; `lockkeeper --help` lists them".to_owned()
        }
        ErrorKind::MissingRequiredArgument if argument == ["<CMD>..."] => {
            "no command to run given; it comes after `--`, as in: lockkeeper run nightly-backup -- ./backup.sh"
                .to_owned()
        }
        ErrorKind::MissingRequiredArgument if argument.first() == Some(&"<FILE>") => {
            "no fence's file given, as in: lockkeeper fence backup.fence -- mv new.tar backup.tar".to_owned()
        }
        ErrorKind::MissingRequiredArgument if argument.first() == Some(&"<NAME>") => {
            "no lock's name given, as in: lockkeeper run nightly-backup -- ./backup.sh".to_owned()
        }
        ErrorKind::MissingRequiredArgument if argument.contains(&"--token <TOKEN>") => {
            "no token given: it is the holder's, and `lockkeeper show x` shows that of the lock x".to_owned()
        }
        ErrorKind::MissingRequiredArgument if argument.contains(&"--reason <REASON>") => {
            "no reason given for the waiters, as in: lockkeeper freeze nightly-backup --reason 'moving disks'"
                .to_owned()
        }
        ErrorKind::ValueValidation if !argument.is_empty() => match std::error::Error::source(error) {
            Some(source) => format!("{}: {source}", argument.join(" ")),
            None => first_paragraph(error),
        },
        ErrorKind::UnknownArgument if argument.first().is_some_and(|argument| !argument.starts_with('-')) => {
            format!("{}; a command to run comes after `--`", first_paragraph(error))
        }
        ErrorKind::InvalidSubcommand => format!("{}; `lockkeeper --help` lists the commands", first_paragraph(error)),
        _ => first_paragraph(error),
    }
}

/// What clap says before it explains the usage, and its tips.
fn first_paragraph(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let paragraph: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let mut line = paragraph.join(" ");
    for tip in text.lines().filter_map(|line| line.trim().strip_prefix("tip: ")) {
        line.push_str("; ");
        line.push_str(tip);
    }
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory as _;

    use super::*;
    use crate::args::OnLoss;

    fn read(line: &str) -> Result<CliRequest, CommandFailure> {
        parse(line.split(' ').map(OsString::from))
    }

    fn run(line: &str) -> RunArgs {
        match read(line) {
            Ok(CliRequest::Do(Cli { command: Command::Run(args), .. })) => args,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_stand_before_or_after_the_name_and_the_command_keeps_its_own() {
        for line in [
            "lockkeeper run nightly -x -w 2.5s -E 7 --grace 10 --on-loss warn -q -- sh -c -n --json",
            "lockkeeper run -x -q --wait 2500ms --conflict-exit-code 7 --on-loss=warn --grace 10s nightly \
             -- sh -c -n --json",
        ] {
            let args = run(line);
            assert_eq!(args.claim.name, "nightly");
            assert_eq!(args.claim.wait, Some(Duration::from_millis(2_500)));
            assert_eq!(args.claim.conflict_exit_code, 7);
            assert_eq!(args.grace, Some(Duration::from_secs(10)));
            assert_eq!(args.on_loss, OnLoss::Warn);
            assert!(args.quiet && !args.claim.no_wait);
            assert_eq!(args.command, ["sh", "-c", "-n", "--json"]);
        }
    }

    #[test]
    fn a_plain_run_is_read_as_the_definition_reads_it_and_all_else_is_left_to_that() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for line in [
            "lockkeeper run x -- true",
            "lockkeeper run help -- sh -c -n --json -- x",
            "lockkeeper run reports/a=b -- --help",
            "l run run -- ",
        ] {
            let (plain, defined) = (plain_run(&words(line)), Cli::try_parse_from(words(line)).unwrap());
            assert_eq!(format!("{:?}", plain.expect(line)), format!("{defined:?}"), "{line}");
        }
        for line in [
            "lockkeeper run x --",
            "lockkeeper run x true",
            "lockkeeper run -s x -- true",
            "lockkeeper run x -s -- true",
            "lockkeeper run -h -- true",
            "lockkeeper run -- -- true",
            "lockkeeper run  -- true",
            "lockkeeper -v run x -- true",
            "lockkeeper hold x -- true",
        ] {
            assert!(plain_run(&words(line)).is_none(), "{line}");
        }
    }

    #[test]
    fn global_options_stand_anywhere() {
        for line in ["lockkeeper --json -v --connect memory: ls", "lockkeeper ls --json -v --connect memory:"] {
            let Ok(CliRequest::Do(cli)) = read(line) else { panic!("{line}") };
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
            ("lockkeeper run x -n -w 1 -- true", "--no-wait"),
            ("lockkeeper run x -E -1 -- true", "--conflict-exit-code"),
            ("lockkeeper run x --on-loss explode -- true", "stop, warn"),
            ("lockkeeper run x --wiat 3 -- true", "--wait"),
            ("lockkeeper run x -s -x -- true", "--shared"),
            ("lockkeeper run x -s --permits 2 -- true", "--permits"),
            ("lockkeeper run x --permits 0 -- true", "--permits <N>: 0 is not in 1.."),
            ("lockkeeper run x --permits 4294967296 -- true", "--permits <N>: 4294967296"),
            ("lockkeeper rnu x -- true", "'rnu'; `lockkeeper --help`"),
            ("lockkeeper run x --restart -n -- true", "--restart"),
            ("lockkeeper run x --max-hold 0 -- true", "--max-hold <DUR>: it has to be"),
            ("lockkeeper wait x -w soon", "`soon`"),
            ("lockkeeper run x --on-revoke maybe -- true", "stop, ignore"),
            ("lockkeeper show", "name"),
            ("lockkeeper hold x -- true", "'true'"),
            ("lockkeeper fence", "file given"),
            ("lockkeeper fence x", "after `--`"),
            ("lockkeeper break x", "`lockkeeper show x`"),
            ("lockkeeper break x --token abc", "--token <TOKEN>: "),
            ("lockkeeper break x --token 18446744073709551615", "--token"),
            ("lockkeeper break --token 1", "name"),
            ("lockkeeper revoke x --reason ", "--reason <REASON>: it is empty"),
            ("lockkeeper freeze x", "--reason"),
            ("lockkeeper freeze x --reason \n", "--reason <REASON>: it is empty"),
            ("lockkeeper freeze x --reason a\x1b[2J", "control"),
            (&*format!("lockkeeper freeze x --reason {}", "x".repeat(501)), "501"),
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
    fn help_and_version_are_not_failures_and_every_command_has_an_example() {
        assert!(matches!(read("lockkeeper --version"), Ok(CliRequest::Print(text)) if text.starts_with("lockkeeper ")));
        let cli = Cli::command();
        assert!(cli.get_subcommands().all(|command| command.get_about().is_some()), "`--help` says what each is for");
        for command in cli.get_subcommands().map(clap::Command::get_name) {
            let Ok(CliRequest::Print(text)) = read(&format!("lockkeeper {command} --help")) else {
                panic!("{command}")
            };
            assert!(text.contains("Example"), "{command}: {text}");
            let asked = read(&format!("lockkeeper help {command}"));
            assert!(matches!(asked, Ok(CliRequest::Print(help)) if help == text), "{command}");
        }
        assert!(matches!(read("lockkeeper help"), Ok(CliRequest::Print(text)) if text.contains("nightly-backup")));
        let failure = read("lockkeeper help rnu").expect_err("there is no such command");
        assert!(failure.code == 125 && failure.message.contains("rnu"), "{}", failure.message);
    }
}
