//! Running commands, each to its end or until it is told to end, within a deadline; looking at processes.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::eventually;

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// What it has printed on stdout, as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts that it was refused with one line of ours that has these words, and printed nothing; returns the line.
    #[track_caller]
    pub(crate) fn assert_refused(&self, code: i32, words: &[&str]) -> &str {
        assert_eq!((self.code, &*self.stdout), (Some(code), ""), "{self:?}");
        let line = self.stderr.strip_suffix('\n').unwrap_or_else(|| panic!("no whole line: {self:?}"));
        assert!(line.starts_with("lockkeeper: ") && !line.contains(char::is_control), "{line:?}");
        for word in words {
            assert!(line.contains(word), "{word:?} is not in {line:?}");
        }
        line
    }
}

/// A `run` whose command is under way until it is told to end; at the latest when this value goes.
pub(crate) struct Holder {
    pub(crate) process: Running,
}

impl Holder {
    /// Starts a command that prints `held` once it runs, and ends with its stdin.
    pub(crate) fn start(command: &mut Command) -> Self {
        let process = Running::with_input(command);
        assert_eq!(process.line(), "held\n");
        Self { process }
    }

    /// Lets its command end, and waits until it has.
    pub(crate) fn end(mut self) {
        self.process.close_input();
        assert_eq!(self.process.code(), Some(1), "`read` fails at the end of its input");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.process.close_input();
        if !thread::panicking() {
            self.process.code();
        }
    }
}

/// A process under way, and what it says; it does not outlive its test.
pub(crate) struct Running {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: Heard,
    stderr: Heard,
}

impl Running {
    /// Starts a command without input.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::spawn(command.stdin(Stdio::null()))
    }

    /// Starts a command whose input stays open until it is closed, or until the end.
    pub(crate) fn with_input(command: &mut Command) -> Self {
        Self::spawn(command.stdin(Stdio::piped()))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, stderr) = (process.stdout.take().unwrap(), process.stderr.take().unwrap());
        Self { stdin: process.stdin.take(), stdout: Heard::of(stdout), stderr: Heard::of(stderr), process }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    pub(crate) fn send(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// The next line of its stdout; empty when there is none any more.
    pub(crate) fn line(&self) -> String {
        self.stdout.line()
    }

    /// The next line that it says on stderr; empty when there is none any more.
    pub(crate) fn said(&self) -> String {
        self.stderr.line()
    }

    /// Waits until it has said a line with these words.
    pub(crate) fn until_said(&self, words: &str) {
        loop {
            let line = self.said();
            assert!(!line.is_empty(), "it did not say {words:?}");
            if line.contains(words) {
                return;
            }
        }
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Kills it, and waits until it is dead.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for its end alone: what it has started may still have its output open.
    pub(crate) fn code(&mut self) -> Option<i32> {
        ended(&mut self.process).code()
    }

    /// Waits for its end, and returns what it has said and no test has taken.
    pub(crate) fn end(mut self) -> Ended {
        let code = self.code();
        Ended { code, stdout: self.stdout.rest(), stderr: self.stderr.rest() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended, and been waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What is said on a stream, heard by a thread.
struct Heard {
    so_far: Arc<Mutex<SoFar>>,
    ear: JoinHandle<()>,
}

#[derive(Default)]
struct SoFar {
    text: String,
    /// How much of it a test has taken.
    taken: usize,
}

impl Heard {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let so_far = Arc::new(Mutex::new(SoFar::default()));
        let heard = Arc::clone(&so_far);
        let ear = thread::spawn(move || {
            let mut lines = BufReader::new(stream);
            let mut line = String::new();
            while lines.read_line(&mut line).unwrap() > 0 {
                heard.lock().unwrap().text.push_str(&line);
                line.clear();
            }
        });
        Self { so_far, ear }
    }

    fn line(&self) -> String {
        eventually("a line is said", || {
            let is_all = self.ear.is_finished();
            let SoFar { text, taken } = &mut *self.so_far.lock().unwrap();
            let end = text[*taken..].find('\n').map(|end| *taken + end + 1).or_else(|| is_all.then_some(text.len()))?;
            let begin = std::mem::replace(taken, end);
            Some(text[begin..end].to_owned())
        })
    }

    fn rest(&self) -> String {
        eventually("nothing more is said", || self.ear.is_finished().then_some(()));
        let SoFar { text, taken } = &*self.so_far.lock().unwrap();
        text[*taken..].to_owned()
    }
}

/// Runs a command to its end, without input.
pub(crate) fn finish(command: &mut Command) -> Ended {
    Running::start(command).end()
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
