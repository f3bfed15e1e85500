//! A copy of a server's data, as an operator keeps one of a folder, or a snapshot of its volume.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::template::run;
use crate::{Error, Result};

/// Copies the data beside their folder; an earlier copy is removed.
pub(crate) fn copy(data: &Path) -> Result<()> {
    let copy = beside(data);
    if copy.exists() {
        fs::remove_dir_all(&copy).map_err(Error::io(copy.display()))?;
    }
    run(Command::new("cp").arg("--archive").arg(data).arg(copy))
}

/// Puts the copy into the place of the data. Their server does not run.
pub(crate) fn put_back(data: &Path) -> Result<()> {
    fs::remove_dir_all(data).map_err(Error::io(data.display()))?;
    run(Command::new("cp").arg("--archive").arg(beside(data)).arg(data))
}

fn beside(data: &Path) -> PathBuf {
    data.with_extension("copy")
}
