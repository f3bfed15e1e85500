//! The target directory, in which things are kept from run to run that take seconds to make: compiled programs, the
//! first data of servers, and packages from PyPI, which `cargo xtask test` puts there.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::scratch::{self, Scratch};
use crate::{Availability, Error, Result, process};

/// What a thing is made from: names and texts of files.
pub(crate) type Files = &'static [(&'static str, &'static str)];

/// The folder of a thing made from `sources`, whether or not it was made: other sources, another folder.
pub(crate) fn path(name: &str, sources: &(impl Hash + ?Sized)) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    sources.hash(&mut hasher);
    folder().join(format!("{name}-{:016x}", hasher.finish()))
}

/// Answers the folder at `path`, and calls `make` to fill a new one if it is not there yet.
///
/// Other callers wait meanwhile, in other processes too. A half-made folder is never seen.
pub(crate) fn made(path: PathBuf, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    if path.exists() {
        return Ok(path);
    }
    let gate = folder().join("gate");
    fs::create_dir_all(folder()).map_err(Error::io(folder().display()))?;
    let gate = File::create(&gate).map_err(Error::io(gate.display()))?;
    gate.lock().map_err(Error::io("waiting for another test to finish"))?;
    if path.exists() {
        return Ok(path);
    }
    let making = path.with_extension("making");
    // What a killed run left there.
    let _ = fs::remove_dir_all(&making);
    fs::create_dir(&making).map_err(Error::io(making.display()))?;
    make(&making)?;
    fs::rename(&making, &path).map_err(Error::io(path.display()))?;
    Ok(path)
}

/// Writes the files into `folder`.
pub(crate) fn write(folder: &Path, files: Files) -> Result<()> {
    files.iter().try_for_each(|(name, text)| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(Error::io(path.display()))
    })
}

/// The folder of all these folders. What fills one may keep more there than is looked for.
pub(crate) fn folder() -> PathBuf {
    target_folder().join("lockkeeper-faults")
}

const TEMPLATE_DATA: &str = "data";

/// Copies the template to a folder that is not there yet. If there is no template yet, `program` makes it, whose
/// `arguments` say where.
pub(crate) fn copy_template<A: AsRef<OsStr> + Hash>(
    name: &str,
    program: &Path,
    arguments: impl Fn(&Path) -> Vec<A>,
    to: &Path,
) -> Result<()> {
    // Its owner is a part of it.
    let made_from = (program, arguments(Path::new("")), scratch::privileges());
    let template = made(path(name, &made_from), |folder| {
        // The server's account may not reach the target directory.
        let scratch = Scratch::new()?;
        scratch.give()?;
        let data = scratch.path().join(TEMPLATE_DATA);
        let mut making = process::command_without_root(&[], program);
        run(making.args(arguments(&data)).current_dir(scratch.path()))?;
        run(Command::new("cp").arg("--archive").arg(data).arg(folder))
    })?;
    run(Command::new("cp").arg("--archive").arg(template.join(TEMPLATE_DATA)).arg(to))
}

pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(&name))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::new(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))),
    }
}

/// A folder of packages, made from pinned requirements.
#[derive(Clone, Copy, Debug)]
pub struct Packages {
    name: &'static str,
    requirements: &'static str,
}

impl Packages {
    /// The folder `name` of the table in `xtask/src/python.rs`, with the text of its requirements.
    pub const fn new(name: &'static str, requirements: &'static str) -> Self {
        Self { name, requirements }
    }

    /// Where they lie, for `PYTHONPATH`.
    pub fn folder(&self) -> Result<PathBuf> {
        let folder = target_folder().join("lockkeeper-python").join(self.name);
        let made_from = fs::read_to_string(folder.join("requirements.txt"));
        match made_from.is_ok_and(|made_from| made_from == self.requirements) {
            true => Ok(folder),
            false => {
                Err(Error::new(format!("{} is not in the target directory (cargo xtask test installs it)", self.name)))
            }
        }
    }

    /// Whether they are there, and a Python to use them.
    pub fn availability(&self) -> Availability {
        Availability::of_programs(&["python3"], "python3").and(|| match self.folder() {
            Ok(_) => Availability::Present,
            Err(error) => Availability::Missing(error.to_string()),
        })
    }
}

fn target_folder() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"))
}
