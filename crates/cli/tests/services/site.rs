//! A simulated machine that uses a service of many machines: its config file names the service.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_faults::long;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{Ended, PATIENCE, Place, ended, eventually, number_in, send};

/// How long anything may take that a healthy service does, also on a machine with other work to do.
pub(crate) const SOON: Duration = PATIENCE;

/// Asserts that a lock was handed on in time after its holder's death, in the long run: on a machine that other tests
/// use as well, what is late says nothing.
pub(crate) fn assert_in_time(took: Duration, within: Duration) {
    assert!(!long::is_asked_for() || took <= within, "{took:?}");
}

/// What a command says of itself that ends before its lock was given back.
const LATE: &str = ": giving the lock back took longer than 5s; it ends with the session\n";

/// Tells a command whose pids are its arguments whether any of them is alive.
pub(crate) const ALL_DEAD: &str = r#"
    for pid in "$@"; do
        case "$(sed 's/.*) //' /proc/$pid/stat 2>/dev/null)" in ''|Z*|X*) ;; *) exit 1 ;; esac
    done
    echo $$ > next"#;

/// Reads, waits for the disk and writes: without exclusion, hardly any of fifty survives. The command with the number
/// `$2` waits until the killed server serves again.
pub(crate) const COUNT: &str = r#"
    read number < counter
    if [ "$number" = "$1" ]; then while [ ! -e restarted ]; do sleep 0.01; done; fi
    sync counter
    echo $((number + 1)) > counter"#;

/// Notes its number; the one in the middle waits until the killed server serves again.
pub(crate) const NOTE: &str = r#"
    if [ "$1" = "$2" ]; then while [ ! -e restarted ]; do sleep 0.01; done; fi
    echo "$1" >> served"#;

/// A machine that uses a service.
pub(crate) struct Site {
    pub(crate) place: Place,
    /// Where commands run, and write their notes.
    notes: TempDir,
    /// How many commands were started.
    started: AtomicUsize,
    /// Whether one has ended before its lock was given back.
    is_late: AtomicBool,
}

impl Site {
    /// A machine that uses the service of this URL.
    pub(crate) fn of(url: &str) -> Self {
        let place = Place::new();
        place.file(".config/lockkeeper/config.toml", &format!("url = '{url}'\n"));
        Self { place, notes: TempDir::new().unwrap(), started: AtomicUsize::new(0), is_late: AtomicBool::new(false) }
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

    /// Starts `lockkeeper run OPTIONS NAME -- sh -c SCRIPT sh ARGUMENT…`.
    pub(crate) fn start(&self, options: &[&str], name: &str, script: &str, arguments: &[String]) -> Running {
        let fixed = ["--", "sh", "-c", script, "sh"];
        let arguments = arguments.iter().map(String::as_str);
        let line: Vec<&str> =
            ["run"].iter().chain(options).chain(&[name]).chain(&fixed).copied().chain(arguments).collect();
        let mut command = self.place.command(&line);
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let said = self.notes().join(format!("said-{number}"));
        command.current_dir(self.notes()).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&said).unwrap());
        Running::start(&mut command, said)
    }

    /// Starts it and waits until it stands in the queue behind `ahead` others.
    pub(crate) fn join(&self, name: &str, ahead: usize, script: &str, arguments: &[String]) -> Running {
        let running = self.start(&["-q"], name, script, arguments);
        eventually("it has joined", || (self.contenders(name)? > ahead).then_some(()));
        running
    }

    /// How many stand in a queue; none while the service elects a leader and refuses every look.
    fn contenders(&self, name: &str) -> Option<usize> {
        let shown = self.place.run(&["show", "--json", name]);
        match shown.code {
            Some(0) => {
                let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
                Some(shown["contenders"].as_array().unwrap().len())
            }
            _ => {
                assert_eq!(shown.code, Some(125), "{shown:?}");
                None
            }
        }
    }

    /// Waits for the end of commands, and asserts that all succeed and say nothing. On a busy machine one may say that
    /// it has ended before its lock was given back.
    pub(crate) fn succeed(&self, commands: Vec<Running>) {
        for command in commands {
            let (code, said) = command.end();
            let is_late = said.lines().count() == 1 && said.ends_with(LATE);
            self.is_late.fetch_or(is_late, Ordering::Relaxed);
            assert!(code == Some(0) && (said.is_empty() || is_late), "{code:?}: {said}");
        }
    }

    /// Asserts that no queue is in use; if a command has said that it ended too early for that, once its session is
    /// over.
    pub(crate) fn assert_nothing_left(&self) {
        if self.is_late.load(Ordering::Relaxed) {
            eventually("no queue is in use", || self.place.run(&["ls"]).stdout.is_empty().then_some(()));
        }
        let Ended { code, stdout, stderr } = self.place.run(&["ls"]);
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "", ""));
    }
}

/// A `run` under way; dropping it kills its runner, and so ends its command.
pub(crate) struct Running {
    process: Child,
    said: PathBuf,
}

impl Running {
    fn start(command: &mut Command, said: PathBuf) -> Self {
        Self { process: command.spawn().unwrap(), said }
    }

    pub(crate) fn send(&self, signal: Signal) {
        send(self.process.id().cast_signed(), signal);
    }

    /// What was said on stderr so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    /// Waits for the end; returns the exit code, none for a death by a signal, and what was printed.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = ended(&mut self.process);
        (status.code(), self.said())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
