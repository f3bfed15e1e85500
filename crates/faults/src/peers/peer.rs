//! A running peer: one command a line to it, one answer a line from it.
//!
//! Starting one is `curator`'s and `kazoo`'s.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time;

use crate::process::Process;
use crate::{Error, Result};

/// How long a peer may take from its start to its session, and to answer beyond what it was asked to wait: starting a
/// Java process on a loaded machine takes seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Which recipe of a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Curator's `InterProcessMutex`, kazoo's `Lock`, as they come: neither waits for the other.
    Mutex,
    /// The same, told of each other's names: Curator by a lock driver of its own that compares what follows kazoo's
    /// marker too, kazoo by `extra_lock_patterns=["-lock-"]`. These two exclude each other.
    MixedMutex,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::MixedMutex => "mixed-mutex",
        }
    }
}

/// A peer with one session of its own; dropping it kills it, without closing the session.
///
/// One command at a time: two contenders are two peers.
#[derive(Debug)]
pub struct Peer {
    name: &'static str,
    process: Process,
    input: ChildStdin,
    answers: mpsc::Receiver<String>,
}

impl Peer {
    /// Starts a driver and waits for its session.
    pub(super) async fn start(
        name: &'static str,
        mut command: Command,
        connect: &str,
        session_timeout: Duration,
    ) -> Result<Self> {
        command.arg(connect).arg(session_timeout.as_millis().to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(command)?;
        let input = process.take_stdin().expect("asked to be piped");
        let output = process.take_stdout().expect("asked to be piped");
        // One answer a command, and one for the start: it never fills.
        let (sender, answers) = mpsc::channel(2);
        thread::spawn(move || {
            // Ends with the process, which closes its output.
            for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        let mut peer = Self { name, process, input, answers };
        peer.answer("start", ANSWER_WITHIN).await?;
        Ok(peer)
    }

    /// Takes the lock, waiting for at most `within`; answers whether it was granted.
    ///
    /// # Errors
    ///
    /// The peer reported an error, died, or did not answer within a minute more than it was to wait. The same holds for
    /// all its commands.
    pub async fn lock(&mut self, kind: Kind, path: &str, within: Duration) -> Result<bool> {
        let millis = within.as_millis().to_string();
        self.yes("lock", &[kind.word(), path, &millis], within).await
    }

    /// Takes the lock if it is free: Curator's `acquire(0)`, kazoo's `acquire(blocking=False)`.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&mut self, kind: Kind, path: &str) -> Result<bool> {
        self.lock(kind, path, Duration::ZERO).await
    }

    /// Gives the lock back.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and when it is not held.
    pub async fn release(&mut self, kind: Kind, path: &str) -> Result<()> {
        match self.yes("release", &[kind.word(), path], Duration::ZERO).await? {
            true => Ok(()),
            false => Err(Error::new(format!("{} does not hold {path}", self.name))),
        }
    }

    /// Takes the lock `rounds` times, each time reading the number in `file` and writing it plus one.
    ///
    /// Two who are inside at once lose an increment nearly always: a millisecond lies between reading and writing.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock); it must be done `within` the time.
    pub async fn count(&mut self, kind: Kind, path: &str, file: &Path, rounds: u32, within: Duration) -> Result<()> {
        let file = file.display().to_string();
        let arguments = [kind.word(), path, &file, &rounds.to_string()];
        self.ask("count", &arguments, within).await.map(drop)
    }

    /// The names of the lock's nodes, first in line first.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub async fn participants(&mut self, kind: Kind, path: &str) -> Result<Vec<String>> {
        self.ask("participants", &[kind.word(), path], Duration::ZERO).await
    }

    /// The full path of the node that stands for what the peer holds.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and when it holds nothing.
    pub async fn node(&mut self, kind: Kind, path: &str) -> Result<String> {
        let mut fields = self.ask("node", &[kind.word(), path], Duration::ZERO).await?;
        fields.pop().ok_or_else(|| self.unexpected("node", &fields))
    }

    /// Asks the holder of `node` to give up, as Curator's `Revoker` does.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and when there is no such node.
    pub async fn revoke(&mut self, node: &str) -> Result<()> {
        self.ask("revoke", &[node], Duration::ZERO).await.map(drop)
    }

    /// From the next [`lock`](Self::lock) on, notes requests to give up. Curator only.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock); always for kazoo.
    pub async fn make_revocable(&mut self, kind: Kind, path: &str) -> Result<()> {
        self.ask("revocable", &[kind.word(), path], Duration::ZERO).await.map(drop)
    }

    /// Waits until the peer was asked to give up; answers whether it was.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and when it was not made revocable.
    pub async fn revoked(&mut self, kind: Kind, path: &str, within: Duration) -> Result<bool> {
        let millis = within.as_millis().to_string();
        self.yes("revoked", &[kind.word(), path, &millis], within).await
    }

    /// The process, to kill, pause and resume it.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    async fn yes(&mut self, command: &str, arguments: &[&str], within: Duration) -> Result<bool> {
        let fields = self.ask(command, arguments, within).await?;
        match fields.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["yes"] => Ok(true),
            ["no"] => Ok(false),
            _ => Err(self.unexpected(command, &fields)),
        }
    }

    async fn ask(&mut self, command: &str, arguments: &[&str], within: Duration) -> Result<Vec<String>> {
        let fields = [&[command], arguments].concat();
        if fields.iter().any(|field| field.contains(['\t', '\n'])) {
            return Err(Error::new("a tab or line break cannot be sent to a peer"));
        }
        let line = fields.join("\t") + "\n";
        // Far shorter than a pipe's buffer, and the peer has read all before: this does not block.
        self.input.write_all(line.as_bytes()).map_err(Error::io(format_args!("{} for {command}", self.name)))?;
        self.answer(command, within + ANSWER_WITHIN).await
    }

    async fn answer(&mut self, command: &str, within: Duration) -> Result<Vec<String>> {
        let told = |what: &str| Error::new(format!("{} for {command}: {what}", self.name));
        let line = time::timeout(within, self.answers.recv())
            .await
            .map_err(|_| told("no answer in time"))?
            .ok_or_else(|| told("the process has ended"))?;
        let mut fields = line.split('\t').map(str::to_owned);
        match fields.next().as_deref() {
            Some("ok") => Ok(fields.collect()),
            _ => Err(told(&line)),
        }
    }

    fn unexpected(&self, command: &str, fields: &[String]) -> Error {
        Error::new(format!("{} answered {command} with {fields:?}", self.name))
    }
}
