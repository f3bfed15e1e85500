//! `man`: the manual, made from the definition of the command line.

use std::io;

use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::args::Cli;
use crate::exit::CommandFailure;
use crate::output;

/// Prints the manual page of the command and then those of its subcommands.
pub(super) fn man() -> Result<u8, CommandFailure> {
    let mut text = Vec::new();
    pages(&mut text).map_err(|error| CommandFailure::ours(format!("cannot make the manual pages: {error}")))?;
    output::print(&String::from_utf8_lossy(&text)).map(|()| 0)
}

fn pages(text: &mut Vec<u8>) -> io::Result<()> {
    let mut command = Cli::command();
    command.build();
    Man::new(command.clone()).render(text)?;
    for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
        Man::new(subcommand.clone()).render(text)?;
    }
    Ok(())
}
