//! `lockkeeper run` with a set-user-id command: the kernel does not end it with the watchdog, so only a runner or a
//! watchdog that lives does.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{
    Running, copy_command, copy_program, ended, eventually, has_program, is_alive, is_root, number_in, send, skip,
};

/// The user who runs it, who is not root.
const USER: &str = "65534";

/// A directory of that user, with a copy of the command under test and one of `sleep` that runs as root.
struct Stage(TempDir);

impl Stage {
    /// Skips the test unless this is root, and a set-user-id program is executed as one here.
    fn set() -> Option<Self> {
        if !is_root("plays another user") || !has_program("setpriv") {
            return None;
        }
        let stage = Self(TempDir::new().unwrap());
        fs::set_permissions(stage.0.path(), Permissions::from_mode(0o777)).unwrap();
        copy_command(&stage.path("lockkeeper"));
        for (program, copy) in [("/usr/bin/id", "id"), ("/usr/bin/sleep", "sleep")] {
            copy_program(program.as_ref(), &stage.path(copy));
            fs::set_permissions(stage.path(copy), Permissions::from_mode(0o4755)).unwrap();
        }
        let id = stage.by_user(&["./id", "-u"]).stdout(Stdio::piped()).output().unwrap();
        if id.stdout != b"0\n" {
            skip("set-user-id programs run as their caller here");
            return None;
        }
        Some(stage)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn by_user(&self, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"]).args(words);
        command.current_dir(self.0.path()).env("HOME", self.0.path()).env("LOCKKEEPER_DIR", self.path("locks"));
        command.stdin(Stdio::null());
        command
    }

    /// Starts a runner whose command becomes a set-user-id one; returns it, the watchdog and the command.
    fn start(&self) -> (Child, i32, i32) {
        let script = "echo $PPID > watchdog; echo $$ > command; exec ./sleep 600";
        let words = ["./lockkeeper", "run", "--grace", "200ms", "door", "--", "sh", "-c", script];
        let runner = self.by_user(&words).stderr(Stdio::null()).spawn().unwrap();
        let [watchdog, command] = ["watchdog", "command"].map(|name| number_in(&self.path(name)));
        let is_root =
            || fs::read_to_string(format!("/proc/{command}/status")).ok()?.contains("\t65534\t0\t").then_some(());
        eventually("the command runs as root", is_root);
        (runner, watchdog, command)
    }

    /// Tells whether the command lives when the next holder is granted the lock.
    fn lives_beside_the_next(&self, command: i32) -> bool {
        let next = format!("case \"$(sed 's/.*) //' /proc/{command}/stat 2> /dev/null)\" in ''|Z*|X*) exit 3 ;; esac");
        let code = ended(&mut self.by_user(&["./lockkeeper", "run", "door", "--", "sh", "-c", &next]).spawn().unwrap());
        match code.code() {
            Some(0) => true,
            Some(3) => false,
            other => panic!("the next run ended with {other:?}"),
        }
    }
}

#[test]
fn a_set_user_id_command_is_dead_before_the_next_one_starts_when_runner_or_watchdog_is_killed() {
    let Some(stage) = Stage::set() else { return };
    let (mut runner, _, command) = stage.start();
    runner.kill().unwrap();
    ended(&mut runner);
    assert!(!stage.lives_beside_the_next(command), "the watchdog kills it");
    for note in ["watchdog", "command"] {
        fs::remove_file(stage.path(note)).unwrap();
    }
    let (mut runner, watchdog, command) = stage.start();
    send(watchdog, Signal::KILL);
    assert_eq!(ended(&mut runner).code(), Some(125));
    assert!(!stage.lives_beside_the_next(command), "the runner kills it");
}

/// A command that has become root altogether, under a runner of the user; it ends with this value.
struct Unkillable {
    runner: Running,
    command: i32,
}

impl Unkillable {
    fn start(stage: &Stage) -> Self {
        copy_program("/usr/bin/setpriv".as_ref(), &stage.path("become"));
        fs::set_permissions(stage.path("become"), Permissions::from_mode(0o4755)).unwrap();
        let script = "echo $$ > command; exec ./become --reuid 0 --regid 0 --clear-groups -- sleep 600";
        let words = ["./lockkeeper", "run", "--grace", "200ms", "door", "--", "sh", "-c", script];
        let runner = Running::start(&mut stage.by_user(&words));
        let command = number_in(&stage.path("command"));
        let is_sleep = || fs::read_to_string(format!("/proc/{command}/comm")).ok()?.contains("sleep").then_some(());
        eventually("the command is root's", is_sleep);
        Self { runner, command }
    }
}

impl Drop for Unkillable {
    fn drop(&mut self) {
        send(self.command, Signal::KILL);
    }
}

#[test]
fn a_command_that_cannot_be_signalled_or_killed_is_named_also_without_its_runner() {
    let Some(stage) = Stage::set() else { return };
    let unkillable = Unkillable::start(&stage);
    unkillable.runner.send(Signal::TERM);
    let line = unkillable.runner.said();
    let named = format!("sleep ({})", unkillable.command);
    assert!(line.contains("this user may send no signal to the command") && line.contains(&named), "{line}");
    // Its runner is killed: the watchdog tries to end it, and says that it cannot.
    unkillable.runner.send(Signal::KILL);
    unkillable.runner.until_said(&format!("waiting for processes that cannot be killed: {named}"));
    assert!(is_alive(unkillable.command));
}

#[test]
fn a_set_user_id_command_outlives_runner_and_watchdog_that_are_killed_at_once() {
    let Some(stage) = Stage::set() else { return };
    let (mut runner, watchdog, command) = stage.start();
    // The watchdog first: where a runner dies, the kernel continues what is stopped in a group that it leaves orphaned.
    for (process, signal) in [
        (watchdog, Signal::STOP),
        (runner.id().cast_signed(), Signal::STOP),
        (watchdog, Signal::KILL),
        (runner.id().cast_signed(), Signal::KILL),
    ] {
        send(process, signal);
    }
    ended(&mut runner);
    assert!(stage.lives_beside_the_next(command), "then it is reached, and the page may say so");
    assert!(is_alive(command));
    send(command, Signal::KILL);
}
