//! A place for runs: the directory of their locks, and what their commands write down.

use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use super::{ended, lockkeeper, number_in};

/// A directory for the locks and one for the notes of commands.
pub(crate) struct RunPlace {
    pub(crate) locks: TempDir,
    pub(crate) notes: TempDir,
}

impl RunPlace {
    pub(crate) fn new() -> Self {
        Self { locks: TempDir::new().unwrap(), notes: TempDir::new().unwrap() }
    }

    /// `lockkeeper run OPTIONS -- sh -c SCRIPT`; the script writes its notes into the current directory.
    pub(crate) fn script(&self, options: &[&str], script: &str) -> Command {
        let mut command = lockkeeper(self.locks.path());
        command.arg("run").arg("lock").args(options).args(["--", "sh", "-c", script]).current_dir(self.notes.path());
        command
    }

    pub(crate) fn note(&self, name: &str) -> i32 {
        number_in(&self.notes.path().join(name))
    }

    /// Runs the next holder, whose command tells whether any of `pids` was alive when it started.
    pub(crate) fn next_holder_finds_dead(&self, pids: &[i32]) -> bool {
        let script = r#"
            for pid in "$@"; do
                case "$(sed 's/.*) //' /proc/$pid/stat 2>/dev/null)" in ''|Z*|X*) ;; *) exit 1 ;; esac
            done"#;
        let mut next = self.script(&[], script);
        next.arg("sh").args(pids.iter().map(i32::to_string));
        ended(&mut next.spawn().unwrap()).success()
    }
}

/// Starts a command that ignores requests to end, as do a child in its group and one that `timeout` put into another.
///
/// Returns the runner; the command and its children; the watchdog.
pub(crate) fn start_stubborn(place: &RunPlace, options: &[&str]) -> (Child, [i32; 3], i32) {
    let script = r#"
        trap '' TERM
        echo $PPID > watchdog
        sh -c 'trap "" TERM; echo $$ > grandchild; for second in $(seq 600); do sleep 1; done' &
        timeout 600 sh -c 'trap "" TERM; echo $$ > stray; for second in $(seq 600); do sleep 1; done' &
        echo $$ > child
        for second in $(seq 600); do sleep 1; done"#;
    let runner = place.script(options, script).stderr(Stdio::null()).spawn().unwrap();
    let pids = ["child", "grandchild", "stray"].map(|name| place.note(name));
    (runner, pids, place.note("watchdog"))
}

pub(crate) fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

pub(crate) fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8(bytes.to_vec()).unwrap().lines().map(str::to_owned).collect()
}
