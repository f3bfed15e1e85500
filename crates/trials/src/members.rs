//! Processes that a test binary starts of itself, each as a member of something: what they are asked, what they say,
//! and the folder that they share.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::str::FromStr;

use libtest_mimic::Failed;
use lockkeeper_faults::process::{self, Process};
use tempfile::TempDir;

/// The processes, and their folder; dropping it kills them.
#[derive(Debug)]
pub(crate) struct Members {
    members: Vec<Member>,
    folder: TempDir,
}

impl Members {
    /// Makes the folder, and starts no process yet.
    pub(crate) fn none() -> Result<Self, Failed> {
        Ok(Self { members: Vec::new(), folder: tempfile::tempdir()? })
    }

    /// Starts one more, which is asked this by the environment variable.
    pub(crate) fn start(&mut self, variable: &str, asked: &str) -> Result<(), Failed> {
        self.members.push(Member::start(variable, asked)?);
        Ok(())
    }

    /// Waits until all say this, and returns the numbers behind it.
    pub(crate) fn say(&mut self, what: &str) -> Result<Vec<usize>, Failed> {
        self.members.iter_mut().map(|member| member.says(what)).collect()
    }

    /// Tells all of them a word.
    pub(crate) fn tell(&mut self, word: &str) -> Result<(), Failed> {
        self.members.iter_mut().try_for_each(|member| member.is_told(word))
    }

    /// A file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// One of the processes, what it says, and where it is told something.
#[derive(Debug)]
pub struct Member {
    said: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
    process: Process,
}

impl Member {
    /// Starts it; it is asked this by the environment variable.
    ///
    /// # Errors
    ///
    /// The system starts no process.
    pub fn start(variable: &str, asked: &str) -> Result<Self, Failed> {
        let mut command = process::command(std::env::current_exe()?);
        command.env(variable, asked).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(command)?;
        let output = process.take_stdout().ok_or("it has an output")?;
        let input = process.take_stdin().ok_or("it has an input")?;
        Ok(Self { said: BufReader::new(output).lines(), input, process })
    }

    /// Waits until it says this, and returns the number behind it.
    ///
    /// # Errors
    ///
    /// It says something else, or ends.
    pub fn says(&mut self, what: &str) -> Result<usize, Failed> {
        let line = self.said.next().ok_or_else(|| format!("a process ended before it was {what}"))??;
        let number = line.strip_prefix(what).ok_or_else(|| format!("{line:?} instead of {what}"))?;
        Ok(number.trim().parse()?)
    }

    /// Tells it a word.
    ///
    /// # Errors
    ///
    /// It hears nothing any more.
    pub fn is_told(&mut self, word: &str) -> Result<(), Failed> {
        writeln!(self.input, "{word}")?;
        Ok(self.input.flush()?)
    }

    /// The process, to do harm to.
    pub const fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// What this process is asked as a member: the words behind an environment variable; `None` if it is none.
#[derive(Debug)]
pub struct AskedWords(Vec<String>);

impl AskedWords {
    /// Takes those of this variable.
    pub fn of(variable: &str) -> Option<Self> {
        let asked = std::env::var(variable).ok()?;
        Some(Self(asked.split(' ').rev().map(str::to_owned).collect()))
    }

    /// Takes the next word.
    ///
    /// # Panics
    ///
    /// There is none of this type: the test has not asked for it.
    pub fn take<Word: FromStr<Err: Debug>>(&mut self) -> Word {
        self.0.pop().expect("the test says so many words").parse().expect("the test says such words")
    }
}
