//! The folder of data that every server starts with. Making it takes half a second, copying it a twentieth, so it is
//! made once and kept in the target directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::programs;
use crate::scratch::Scratch;
use crate::{Error, Result, account, cache, process};

/// How it is made: by [`SUPERUSER`](super::asking::SUPERUSER), who needs no password; in Unicode, and sorted by bytes.
const INITDB: &[&str] = &["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"];

/// The data in the folder of the template.
const DATA: &str = "data";

/// Copies the template to a folder that is not there yet.
pub(super) fn copy(to: &Path) -> Result<()> {
    let from = made()?.join(DATA);
    run(Command::new("cp").arg("--archive").arg(from).arg(to))
}

fn made() -> Result<PathBuf> {
    let initdb = programs::find("initdb")?;
    // Its owner is a part of it.
    let made_from = (&initdb, INITDB, account::privileges());
    cache::made(cache::path("postgres", &made_from), |folder| {
        // The server's account may not reach the target directory.
        let scratch = Scratch::new()?;
        scratch.give()?;
        let data = scratch.path().join(DATA);
        run(process::command_without_root(None, &initdb).args(INITDB).arg("--pgdata").arg(&data))?;
        run(Command::new("cp").arg("--archive").arg(data).arg(folder))
    })
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(&name))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::new(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))),
    }
}
