//! A simulated machine, as far as the command under test can see.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{Ended, Holder, Running, eventually, finish, number_in};

/// A simulated machine, as far as the command can see: its locks, its home, and no variable from outside.
pub(crate) struct Place {
    locks: TempDir,
    home: TempDir,
    /// Where scripts run, and write down what a test wants to know.
    notes: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { locks: TempDir::new().unwrap(), home: TempDir::new().unwrap(), notes: TempDir::new().unwrap() }
    }

    /// A machine whose config file names the service.
    pub(crate) fn of(url: &str) -> Self {
        let place = Self::new();
        place.configure(&format!("url = '{url}'\n"));
        place
    }

    /// Writes the config file.
    pub(crate) fn configure(&self, text: &str) -> PathBuf {
        self.file(".config/lockkeeper/config.toml", text)
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
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn notes(&self) -> &Path {
        self.notes.path()
    }

    /// Waits for a note that is a number.
    pub(crate) fn note(&self, name: &str) -> i32 {
        number_in(&self.notes().join(name))
    }

    /// Writes a note.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.notes().join(name), text).unwrap();
    }

    /// Reads a note that is there.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.notes().join(name)).unwrap()
    }

    pub(crate) fn command<Argument: AsRef<OsStr>>(&self, arguments: &[Argument]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
        self.surround(command.args(arguments));
        command
    }

    /// Gives another program the surroundings of a command: it finds the command under test as `$LOCKKEEPER`, and
    /// first of all programs by its name. What it was given before goes before that.
    pub(crate) fn surround<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let program = Path::new(env!("CARGO_BIN_EXE_lockkeeper"));
        let path = std::env::var("PATH").unwrap_or_default();
        let given = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let given: Vec<_> = given.collect();
        command.env_clear().env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
        command.env("HOME", self.home.path()).env("LOCKKEEPER_DIR", self.locks()).env("LOCKKEEPER", program);
        command.envs(given)
    }

    /// `run OPTIONS x -- sh -c SCRIPT`, where the script writes its notes.
    pub(crate) fn script_of(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.command(&[&["run", "x"], options, &["--", "sh", "-c", script]].concat());
        command.current_dir(self.notes());
        command
    }

    /// Starts it, without input.
    pub(crate) fn start(&self, options: &[&str], script: &str) -> Running {
        Running::start(&mut self.script_of(options, script))
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
        self.hold_by(&[], name)
    }

    /// The same, by these options of `run`.
    pub(crate) fn hold_by(&self, options: &[&str], name: &str) -> Holder {
        let script = ["--", "sh", "-c", "echo held; read line"];
        Holder::start(&mut self.command(&[&["run"], options, &[name], &script].concat()))
    }

    /// Waits in a queue behind all others, for `true` to run; `options` are those of the `run`.
    pub(crate) fn queue(&self, options: &[&str], name: &str) -> Running {
        let before = self.contenders(name);
        let waiter = Running::start(&mut self.command(&[&["run", "-q"], options, &[name, "--", "true"]].concat()));
        self.until_contenders(name, before + 1);
        waiter
    }

    /// Returns what a command prints that succeeds.
    #[track_caller]
    pub(crate) fn printed(&self, arguments: &[&str]) -> String {
        let Ended { code, stdout, stderr } = self.run(arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}");
        stdout
    }

    /// The same, of one that prints JSON.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let printed = self.printed(arguments);
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed:?}"))
    }

    /// Returns what `show --json` prints.
    pub(crate) fn show(&self, name: &str) -> Value {
        let shown = self.run(&["show", "--json", name]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        shown.json()
    }

    /// The token of the first contender in a queue.
    pub(crate) fn token(&self, name: &str) -> String {
        self.show(name)["contenders"][0]["token"].as_str().unwrap().to_owned()
    }

    /// How many contenders stand in a queue, the holder among them.
    pub(crate) fn contenders(&self, name: &str) -> usize {
        self.show(name)["contenders"].as_array().unwrap().len()
    }

    /// Waits until there are so many.
    pub(crate) fn until_contenders(&self, name: &str, count: usize) {
        eventually(&format!("{count} stand in the queue of {name}"), || (self.contenders(name) == count).then_some(()));
    }

    /// Asserts that nothing is left of any queue, not even its directory.
    pub(crate) fn assert_nothing_left(&self) {
        let queues: Vec<_> = fs::read_dir(self.locks().join("queues")).unwrap().collect();
        assert!(queues.is_empty(), "left behind: {queues:?}");
    }
}
