//! A simulated machine, as far as the command under test can see.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{Ended, Holder, finish};

/// A simulated machine, as far as the command can see: its locks, its home, and no variable from outside.
pub(crate) struct Place {
    locks: TempDir,
    home: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { locks: TempDir::new().unwrap(), home: TempDir::new().unwrap() }
    }

    pub(crate) fn locks(&self) -> &Path {
        self.locks.path()
    }

    /// The service that is used here when none is named.
    pub(crate) fn service(&self) -> String {
        format!("file:{}", self.locks.path().display())
    }

    /// Writes a file into the home.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command<Argument: AsRef<OsStr>>(&self, arguments: &[Argument]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
        command.args(arguments).env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.env("HOME", self.home.path()).env("LOCKKEEPER_DIR", self.locks.path());
        command.env("LOCKKEEPER", env!("CARGO_BIN_EXE_lockkeeper"));
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run<Argument: AsRef<OsStr>>(&self, arguments: &[Argument]) -> Ended {
        finish(&mut self.command(arguments))
    }

    /// Runs a shell script under the lock `name`; it finds the command under test as `$LOCKKEEPER`.
    pub(crate) fn script(&self, name: &str, script: &str) -> Ended {
        self.run(&["run", name, "--", "sh", "-c", script])
    }

    /// Takes a lock and keeps it.
    pub(crate) fn hold(&self, name: &str) -> Holder {
        Holder::start(&mut self.command(&["run", name, "--", "sh", "-c", "echo held; read line"]))
    }

    /// Returns what `show --json` prints.
    pub(crate) fn show(&self, name: &str) -> serde_json::Value {
        let shown = self.run(&["show", "--json", name]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        serde_json::from_str(&shown.stdout).unwrap()
    }

    /// How many contenders stand in a queue, the holder among them.
    pub(crate) fn contenders(&self, name: &str) -> usize {
        self.show(name)["contenders"].as_array().unwrap().len()
    }
}
