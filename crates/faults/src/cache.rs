//! Folders of things that take seconds to make and stay the same from run to run. They are kept in the target
//! directory.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::{Error, Result, target};

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
    target::folder().join("lockkeeper-faults")
}
