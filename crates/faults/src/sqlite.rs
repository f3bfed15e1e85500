//! SQLite, by its own shell: one process for each connection to a file.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::{Availability, Error, Result};

/// What the shell is asked last each time, so that the end of its answer is known.
const END: &str = "end of the answer";

/// Whether the shell is here.
pub fn availability() -> Availability {
    Availability::of_programs(&["sqlite3"], "sqlite3")
}

/// A connection to a file; dropping it ends the process, and rolls back what was begun.
#[derive(Debug)]
pub struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    /// Opens a file, or makes it. A statement waits for those of others for 10 s.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| Error::new(format!("sqlite3: {error}"));
        // What it refuses is a line of the answer, like what it finds.
        let mut child = Command::new("sh")
            .args(["-c", "exec sqlite3 -batch \"$0\" 2>&1"])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new("sqlite3 has no input or output"));
        };
        let mut shell = Self { child, input, output: BufReader::new(output) };
        shell.ask(".timeout 10000")?;
        Ok(shell)
    }

    /// Executes statements; returns the lines of the answer, among them what was refused and why.
    pub fn ask(&mut self, statements: &str) -> Result<Vec<String>> {
        let failed = |error: std::io::Error| Error::new(format!("sqlite3: {error}"));
        writeln!(self.input, "{statements}\nSELECT '{END}';").and_then(|()| self.input.flush()).map_err(failed)?;
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).map_err(failed)? == 0 {
                return Err(Error::new(format!("sqlite3 has ended: {lines:?}")));
            }
            match line.trim_end() {
                END => return Ok(lines),
                line => lines.push(line.to_owned()),
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
