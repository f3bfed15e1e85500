//! `completions` and `man`: texts made from the definition of the command line.

use std::io;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;
use crate::exit::Failure;
use crate::output;

/// Prints the completions for a shell.
pub(super) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lockkeeper", &mut text);
    print(&text)
}

/// Prints the manual page of the command and then those of its subcommands.
pub(super) fn man() -> Result<u8, Failure> {
    let mut text = Vec::new();
    pages(&mut text).map_err(|error| Failure::ours(format!("cannot make the manual pages: {error}")))?;
    print(&text)
}

fn pages(text: &mut Vec<u8>) -> io::Result<()> {
    let mut command = Cli::command();
    command.build();
    Man::new(command.clone()).render(text)?;
    for subcommand in command.get_subcommands() {
        Man::new(subcommand.clone()).render(text)?;
    }
    Ok(())
}

fn print(text: &[u8]) -> Result<u8, Failure> {
    output::print(&String::from_utf8_lossy(text)).map(|()| 0)
}
