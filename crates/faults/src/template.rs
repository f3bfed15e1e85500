//! The folder of data that every server of a kind starts with. Making it takes a second, copying it a twentieth, so it
//! is made once and kept in the target directory.

use std::ffi::OsStr;
use std::hash::Hash;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::scratch::Scratch;
use crate::{Error, Result, account, cache, process};

/// The data in the folder of the template.
const DATA: &str = "data";

/// Copies the template to a folder that is not there yet. If there is no template yet, `program` makes it, whose
/// `arguments` say where.
pub(crate) fn copy<A: AsRef<OsStr> + Hash>(
    name: &str,
    program: &Path,
    arguments: impl Fn(&Path) -> Vec<A>,
    to: &Path,
) -> Result<()> {
    // Its owner is a part of it.
    let made_from = (program, arguments(Path::new("")), account::privileges());
    let made = cache::made(cache::path(name, &made_from), |folder| {
        // The server's account may not reach the target directory.
        let scratch = Scratch::new()?;
        scratch.give()?;
        let data = scratch.path().join(DATA);
        let mut making = process::command_without_root(&[], program);
        run(making.args(arguments(&data)).current_dir(scratch.path()))?;
        run(Command::new("cp").arg("--archive").arg(data).arg(folder))
    })?;
    run(Command::new("cp").arg("--archive").arg(made.join(DATA)).arg(to))
}

pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(&name))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::new(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))),
    }
}
