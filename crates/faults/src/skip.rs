//! Skipping by name: a test that lacks a program or a right says so, and is counted as skipped.
//!
//! `cargo xtask test` collects these lines; its table says which packages to install.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::thread;

/// The environment variable that names the file to which tests append `name: reason` when they skip themselves.
const SKIPS_VARIABLE: &str = "LOCKKEEPER_TEST_SKIPS";

/// Whether something that a test wants is on this machine.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "a test that goes on without what it needs fails for the wrong reason"]
pub enum Availability {
    /// It is here.
    Present,
    /// It is not, and this is why, with the cure where there is one.
    Missing(String),
}

impl Availability {
    /// Present only if both are; the first reason found is given.
    pub fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Present => other(),
            missing => missing,
        }
    }

    /// Answers whether `test` may go on; if not, writes down that it is skipped, and why.
    ///
    /// `test` is the name that the harness prints for the test (its path inside the test binary).
    pub fn or_skip(self, test: &str) -> bool {
        match self {
            Self::Present => true,
            Self::Missing(reason) => {
                skip(test, &reason);
                false
            }
        }
    }

    /// The same for the test that asks, by the name that the harness gave to its thread.
    pub fn or_skip_here(self) -> bool {
        self.or_skip(thread::current().name().expect("the harness names the thread of a test"))
    }

    /// Present if every file is there.
    pub(crate) fn of_files(paths: &[&str], package: &str) -> Self {
        match paths.iter().find(|path| !Path::new(path).exists()) {
            Some(path) => Self::Missing(format!("{path} is not there (Debian: {package})")),
            None => Self::Present,
        }
    }

    /// Present if every program is in `PATH`.
    pub(crate) fn of_programs(programs: &[&str], package: &str) -> Self {
        let search = env::var_os("PATH").unwrap_or_default();
        let found = |program: &str| env::split_paths(&search).any(|folder| folder.join(program).is_file());
        match programs.iter().find(|program| !found(program)) {
            Some(program) => Self::Missing(format!("{program} is not in PATH (Debian: {package})")),
            None => Self::Present,
        }
    }
}

/// Writes down that `test` did not run, and why: on standard error, and into the file of skips when one is named.
pub fn skip(test: &str, reason: &str) {
    let line = format!("{test}: {}\n", reason.replace('\n', " "));
    // In one piece, so that the output of other tests does not split it.
    let told = format!("skipped: {line}");
    eprint!("{told}");
    append(SKIPS_VARIABLE, &line);
}

/// Appends to the file that an environment variable names, if it does.
pub(crate) fn append(variable: &str, text: &str) {
    if let Some(path) = env::var_os(variable) {
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}, named by {variable}: {error}", path.display()));
    }
}
