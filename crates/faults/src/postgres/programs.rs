//! Where PostgreSQL's programs are: Debian keeps them out of `PATH`, in a folder for each release.

use std::fs;
use std::path::PathBuf;

use crate::{Availability, Error, Result};

/// The folder of the releases.
const RELEASES: &str = "/usr/lib/postgresql";

/// The program of this name, of the newest release.
pub(super) fn find(name: &str) -> Result<PathBuf> {
    let releases = fs::read_dir(RELEASES).into_iter().flatten().flatten();
    let numbers = releases.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let programs = numbers.map(|number| (number, PathBuf::from(format!("{RELEASES}/{number}/bin/{name}"))));
    let newest = programs.filter(|(_, program)| program.is_file()).max();
    newest.map(|(_, program)| program).ok_or_else(|| Error::new(missing(name)))
}

/// Whether there is a server.
pub(super) fn availability() -> Availability {
    match find("postgres") {
        Ok(_) => Availability::Present,
        Err(error) => Availability::Missing(error.to_string()),
    }
}

fn missing(name: &str) -> String {
    format!("{name} is not in {RELEASES} (Debian: postgresql)")
}
