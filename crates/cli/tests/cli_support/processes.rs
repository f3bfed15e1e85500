//! Running commands, each to its end or until it is told to end, within a deadline.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long any command may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A process that does not outlive its test: dropping it kills it and waits for its end.
pub struct TestChild(pub Child);

impl Drop for TestChild {
    fn drop(&mut self) {
        // It may have ended, and been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A `run` whose command is under way until it is told to end.
pub struct Holder {
    pub process: Child,
    stdin: Option<ChildStdin>,
}

impl Holder {
    /// Starts a command that prints `held` once it runs, and ends with its stdin.
    pub fn start(command: &mut Command) -> Self {
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
    pub fn end(mut self) {
        drop(self.stdin.take());
        let mut process = self.process;
        let status = in_time("the holder ends", move || process.wait().unwrap());
        assert_eq!(status.code(), Some(1), "`read` fails at the end of its input");
    }
}

/// Runs a command to its end, without input.
pub fn finish(command: &mut Command) -> Ended {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait(child)
}

/// Waits for the end of a command whose stdout and stderr are piped.
pub fn wait(mut child: Child) -> Ended {
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

/// Does something that must end in time.
pub fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(work());
    });
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("waited in vain until {what}"))
}
