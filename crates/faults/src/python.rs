//! Packages from PyPI for tests, in the target directory. `cargo xtask test` puts them there; this finds them.

use std::fs;
use std::path::PathBuf;

use crate::{Availability, Error, Result, target};

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
        let folder = target::folder().join("lockkeeper-python").join(self.name);
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
