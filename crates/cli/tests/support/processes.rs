//! Running commands, each to its end or until it is told to end, within a deadline; looking at processes.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{eventually, in_time};

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A process that does not outlive its test: dropping it kills it and waits for its end.
pub(crate) struct TestChild(pub Child);

impl Drop for TestChild {
    fn drop(&mut self) {
        // It may have ended, and been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A `run` whose command is under way until it is told to end.
pub(crate) struct Holder {
    pub(crate) process: Child,
    stdin: Option<ChildStdin>,
}

impl Holder {
    /// Starts a command that prints `held` once it runs, and ends with its stdin.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = process.stdin.take();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let line = in_time("it holds the lock", move || {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line
        });
        assert_eq!(line, "held\n");
        Self { process, stdin }
    }

    /// Lets its command end, and waits until it has.
    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        let mut process = self.process;
        let status = in_time("the holder ends", move || process.wait().unwrap());
        assert_eq!(status.code(), Some(1), "`read` fails at the end of its input");
    }
}

/// Runs a command to its end, without input.
pub(crate) fn finish(command: &mut Command) -> Ended {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait(child)
}

/// Starts a command, and waits until it has printed its first line on stderr, and no more.
pub(crate) fn first_line(mut command: Command) -> (String, Child) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    in_time("it says its first line", move || {
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert!(stderr.buffer().is_empty(), "and no more: {line}");
        child.stderr = Some(stderr.into_inner());
        (line, child)
    })
}

/// Waits for the end of a command whose stdout and stderr are piped.
pub(crate) fn wait(mut child: Child) -> Ended {
    let read = |mut from: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            from.read_to_string(&mut text).unwrap();
            text
        })
    };
    let stdout = read(Box::new(child.stdout.take().unwrap()));
    let stderr = read(Box::new(child.stderr.take().unwrap()));
    in_time("a command ends", move || Ended {
        code: child.wait().unwrap().code(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    })
}

/// Waits for the end of a process of ours.
pub(crate) fn ended(process: &mut Child) -> ExitStatus {
    eventually("the process ends", || process.try_wait().unwrap())
}

/// Tells whether a process can still do anything: a dead one that was not waited for cannot.
pub(crate) fn is_alive(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

/// Returns the state letter of a process.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Sends a signal, which must succeed.
pub(crate) fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// The command under test, with its locks in `directory`.
pub(crate) fn lockkeeper(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.env("LOCKKEEPER_DIR", directory);
    command
}

/// Copies the command under test.
pub(crate) fn copy_command(to: &Path) {
    copy_program(Path::new(env!("CARGO_BIN_EXE_lockkeeper")), to);
}

/// Copies a program that is then executed.
///
/// Another process does it: what this one has open for writing has open, too, each process that another test is just
/// starting, and nothing can be executed that any process has open for writing.
pub(crate) fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").args(["--preserve=mode", "--"]).args([from, to]).status().unwrap().success());
}
