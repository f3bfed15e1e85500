//! The message for a command line that cannot be read: one line.

use clap::error::{ContextKind, ContextValue, ErrorKind};

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
