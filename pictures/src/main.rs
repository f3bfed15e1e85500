//! `lockkeeper-pictures COMMAND FOLDER`: takes the pictures of the documentation, of a fleet that is staged for them.
//!
//! `cargo xtask pictures` builds the command and runs this. `fleet` stages who holds and who waits, on a real
//! ZooKeeper; `page` takes pictures of a monitor's page in a real browser; `terminal` shows what a command draws on a
//! terminal, whose letters and colours `cells` reads. Names of hosts are neutral, since other machines are pretended;
//! numbers of processes and ages are those of the run.

mod fleet;
mod page;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fleet::Fleet;
use lockkeeper_faults::browser::{self, Browser};
use lockkeeper_faults::peers::{curator, kazoo};
use lockkeeper_faults::{Availability, Error, Result, hosts, zookeeper};

/// How large a picture may be, in bytes: a reader of the documentation loads all of them.
const PICTURE_BYTES_MAX: usize = 150_000;

/// What is drawn on a terminal: the word of the command, and what is on the screen once it has drawn.
const ON_TERMINAL: (&str, &str) = ("top", "deadlock");

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [command, folder] = arguments.as_slice() else {
        eprintln!("usage: lockkeeper-pictures COMMAND FOLDER");
        return ExitCode::from(2);
    };
    match take_all(command, folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pictures: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn take_all(command: &Path, folder: &Path) -> Result<()> {
    let needs = hosts::availability()
        .and(browser::availability)
        .and(zookeeper::availability)
        .and(curator::availability)
        .and(kazoo::availability)
        .and(page::availability);
    if let Availability::Missing(why) = needs {
        return Err(Error::new(format!("{why}; cargo xtask test installs what is missing")));
    }
    std::fs::create_dir_all(folder).map_err(Error::io(folder.display()))?;
    let fleet = Fleet::stage(command).await?;
    let (monitor, at) = fleet.monitor()?;
    let browser = Browser::start()?;
    browser.hide_scroll_bars()?;
    for picture in page::PICTURES {
        keep(folder, picture.name, picture.take(&browser, &at).await?)?;
    }
    drop(monitor);
    let (word, drawn) = ON_TERMINAL;
    let screen = page::screen(&fleet, word, drawn).await?;
    keep(folder, word, page::of_terminal(&browser, &screen)?)
}

/// Makes a picture small and keeps it.
fn keep(folder: &Path, name: &str, picture: Vec<u8>) -> Result<()> {
    let path = folder.join(format!("{name}.png"));
    let told = |error| Error::new(format!("{}: {error}", path.display()));
    let small = oxipng::optimize_from_memory(&picture, &oxipng::Options::from_preset(4)).map_err(told)?;
    println!("{}: {} kB", path.display(), small.len().div_ceil(1_000));
    if small.len() > PICTURE_BYTES_MAX {
        return Err(Error::new(format!("{} is larger than {} kB", path.display(), PICTURE_BYTES_MAX / 1_000)));
    }
    std::fs::write(&path, small).map_err(Error::io(path.display()))
}
