//! A running peer: one command a line to it, one answer a line from it.
//!
//! `curator`, `kazoo` and `go` start one.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time;

use super::Ground;
use crate::process::Process;
use crate::{Error, Result, wait};

/// How long a peer may take from its start to its session, and to answer beyond what it was asked to wait: starting a
/// Java process on a loaded machine takes seconds.
const ANSWER_WITHIN: Duration = wait::PATIENCE;

/// A peer with its own session; dropping it kills it, without closing the session.
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

    /// Takes the lock, waiting for at most `within`; answers whether it was granted. Of a semaphore, one permit.
    ///
    /// go-zookeeper cannot stop waiting: after `within` its node stays in the queue, and goes when its turn comes.
    pub async fn lock(&mut self, kind: Kind, path: &str, within: Duration) -> Result<bool> {
        let millis = within.as_millis().to_string();
        self.yes("lock", &[&kind.word(), path, &millis], within).await
    }

    /// Takes the lock if it is free: Curator's `acquire(0)`, kazoo's `acquire(blocking=False)`. go-zookeeper cannot.
    pub async fn try_lock(&mut self, kind: Kind, path: &str) -> Result<bool> {
        self.lock(kind, path, Duration::ZERO).await
    }

    /// Gives the lock back. Of a semaphore, the permit held longest.
    pub async fn release(&mut self, kind: Kind, path: &str) -> Result<()> {
        match self.yes("release", &[&kind.word(), path], Duration::ZERO).await? {
            true => Ok(()),
            false => Err(Error::new(format!("{} does not hold {path}", self.name))),
        }
    }

    /// Takes this many permits of a semaphore, all or none; answers whether they were granted.
    ///
    /// Both peers take them one by one, and hold the first while they wait for the next.
    pub async fn acquire(&mut self, kind: Kind, path: &str, permits: u32, within: Duration) -> Result<bool> {
        let (permits, millis) = (permits.to_string(), within.as_millis().to_string());
        self.yes("acquire", &[&kind.word(), path, &permits, &millis], within).await
    }

    /// Gives this many permits of a semaphore back, those held longest first.
    pub async fn give_back(&mut self, kind: Kind, path: &str, permits: u32) -> Result<()> {
        match self.yes("return", &[&kind.word(), path, &permits.to_string()], Duration::ZERO).await? {
            true => Ok(()),
            false => Err(Error::new(format!("{} does not hold {permits} permits of {path}", self.name))),
        }
    }

    /// Makes `contenders` threads take the lock `rounds` times each and visit the ground under it; a lock object for
    /// each thread, one session for all. Answers the most that any of them met inside, itself among them.
    ///
    /// A round is the ground's stay and three or four requests, with Curator's semaphore six. The ground reports what
    /// was found wrong.
    pub async fn take_turns(
        &mut self,
        kind: Kind,
        path: &str,
        ground: &Ground,
        (contenders, rounds): (u32, u32),
        within: Duration,
    ) -> Result<usize> {
        let folder = ground.folder().display().to_string();
        let arguments = [&kind.word(), path, &folder, &contenders.to_string(), &rounds.to_string()];
        let fields = self.ask("turns", &arguments, within).await?;
        let [most] = fields.as_slice() else { return Err(self.unexpected("turns", &fields)) };
        most.parse().map_err(|_| self.unexpected("turns", &fields))
    }

    /// Takes an exclusive lock `rounds` times, each time reading the number in `file` and writing it plus one.
    ///
    /// Two holders inside at once lose an increment nearly always: a millisecond lies between reading and writing.
    pub async fn count(&mut self, kind: Kind, path: &str, file: &Path, rounds: u32, within: Duration) -> Result<()> {
        let file = file.display().to_string();
        let arguments = [&kind.word(), path, &file, &rounds.to_string()];
        self.ask("count", &arguments, within).await.map(drop)
    }

    /// The names of the lock's nodes, first in line first: of a semaphore its leases, of one side of Curator's
    /// read/write lock the nodes of that side.
    pub async fn participants(&mut self, kind: Kind, path: &str) -> Result<Vec<String>> {
        self.ask("participants", &[&kind.word(), path], Duration::ZERO).await
    }

    /// The full path of the node of the peer's hold.
    pub async fn node(&mut self, kind: Kind, path: &str) -> Result<String> {
        let mut fields = self.ask("node", &[&kind.word(), path], Duration::ZERO).await?;
        fields.pop().ok_or_else(|| self.unexpected("node", &fields))
    }

    /// Asks the holder of `node` to give up, as Curator's `Revoker` does.
    pub async fn revoke(&mut self, node: &str) -> Result<()> {
        self.ask("revoke", &[node], Duration::ZERO).await.map(drop)
    }

    /// From the next [`lock`](Self::lock) on, notes requests to give up. Curator only.
    pub async fn make_revocable(&mut self, kind: Kind, path: &str) -> Result<()> {
        self.ask("revocable", &[&kind.word(), path], Duration::ZERO).await.map(drop)
    }

    /// Waits until the peer was asked to give up; answers whether it was.
    pub async fn revoked(&mut self, kind: Kind, path: &str, within: Duration) -> Result<bool> {
        let millis = within.as_millis().to_string();
        self.yes("revoked", &[&kind.word(), path, &millis], within).await
    }

    /// The process, to kill, pause and resume it.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    pub(super) async fn yes(&mut self, command: &str, arguments: &[&str], within: Duration) -> Result<bool> {
        let fields = self.ask(command, arguments, within).await?;
        match fields.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["yes"] => Ok(true),
            ["no"] => Ok(false),
            _ => Err(self.unexpected(command, &fields)),
        }
    }

    pub(super) async fn ask(&mut self, command: &str, arguments: &[&str], within: Duration) -> Result<Vec<String>> {
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

    pub(super) fn unexpected(&self, command: &str, fields: &[String]) -> Error {
        Error::new(format!("{} answered {command} with {fields:?}", self.name))
    }

    /// Sets a barrier: `DistributedBarrier.setBarrier`.
    pub async fn set_barrier(&mut self, path: &str) -> Result<()> {
        self.ask("barrier-set", &[path], Duration::ZERO).await.map(drop)
    }

    /// Removes a barrier: `DistributedBarrier.removeBarrier`.
    pub async fn remove_barrier(&mut self, path: &str) -> Result<()> {
        self.ask("barrier-remove", &[path], Duration::ZERO).await.map(drop)
    }

    /// Waits until a barrier is removed: `DistributedBarrier.waitOnBarrier`. Answers whether it was within the time.
    pub async fn wait_on_barrier(&mut self, path: &str, within: Duration) -> Result<bool> {
        self.yes("barrier-wait", &[path, &within.as_millis().to_string()], within).await
    }

    /// The number of a `SharedCount`, as far as Curator's watch has told it; made as 0 if it is not there.
    pub async fn shared_count(&mut self, path: &str) -> Result<SharedCount> {
        let fields = self.ask("number", &[path], Duration::ZERO).await?;
        let numbers: Option<Vec<i32>> = fields.iter().map(|field| field.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[value, version]) => Ok(SharedCount { value, version }),
            _ => Err(self.unexpected("number", &fields)),
        }
    }

    /// Sets the number, from any value: `setCount`.
    pub async fn set_shared_count(&mut self, path: &str, value: i32) -> Result<()> {
        self.ask("number-set", &[path, &value.to_string()], Duration::ZERO).await.map(drop)
    }

    /// Sets the number unless it was set since [`shared_count`](Self::shared_count) was last asked: `trySetCount`.
    /// Answers whether it did.
    pub async fn try_set_shared_count(&mut self, path: &str, value: i32) -> Result<bool> {
        self.yes("number-try-set", &[path, &value.to_string()], Duration::ZERO).await
    }

    /// Waits until the number was set after [`shared_count`](Self::shared_count) was last asked: Curator's listener.
    /// Answers whether it was within the time.
    pub async fn shared_count_changed(&mut self, path: &str, within: Duration) -> Result<bool> {
        self.yes("number-changed", &[path, &within.as_millis().to_string()], within).await
    }

    /// Whether there is a node at `path`.
    pub async fn exists(&mut self, path: &str) -> Result<bool> {
        self.yes("exists", &[path], Duration::ZERO).await
    }

    /// Waits until there is no node at `path`; answers whether that was within the time.
    pub async fn is_gone(&mut self, path: &str, within: Duration) -> Result<bool> {
        self.yes("gone", &[path, &within.as_millis().to_string()], within).await
    }

    /// Makes a node that lives for `time_to_live` beyond the last touch, and keeps touching it: `PersistentTtlNode`.
    pub async fn keep_ttl_node(&mut self, path: &str, time_to_live: Duration) -> Result<()> {
        match self.yes("ttl-keep", &[path, &time_to_live.as_millis().to_string()], Duration::ZERO).await? {
            true => Ok(()),
            false => Err(Error::new(format!("Curator made no node at {path}"))),
        }
    }

    /// Touches such a node no more: `PersistentTtlNode.close`.
    pub async fn leave_ttl_node(&mut self, path: &str) -> Result<()> {
        self.ask("ttl-leave", &[path], Duration::ZERO).await.map(drop)
    }

    /// Counts from now on how often the data of a child of `parent` are set: `PathChildrenCache`.
    pub async fn count_updates(&mut self, parent: &str) -> Result<()> {
        self.ask("updates-count", &[parent], Duration::ZERO).await.map(drop)
    }

    /// How often they were set since.
    pub async fn updates(&mut self, parent: &str) -> Result<usize> {
        let fields = self.ask("updates", &[parent], Duration::ZERO).await?;
        let [count] = fields.as_slice() else { return Err(self.unexpected("updates", &fields)) };
        count.parse().map_err(|_| self.unexpected("updates", &fields))
    }
}

/// Which recipe of a peer; a peer that does not know it answers with an error.
///
/// Kinds of one peer on one path are different locks to it, but for the two sides of a read/write lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Curator's `InterProcessMutex`, kazoo's `Lock`, go-zookeeper's `Lock`, as they come. Curator and go-zookeeper
    /// wait for each other; kazoo and they do not, and go-zookeeper fails on kazoo's names.
    Mutex,
    /// The first two, told of each other's names: Curator by its own lock driver that compares what follows kazoo's
    /// marker too, kazoo by `extra_lock_patterns=["-lock-"]`. These two exclude each other.
    MixedMutex,
    /// Curator's `InterProcessMutex` by a subclass that stores its owner, as ours do.
    OwnedMutex,
    /// kazoo's `Lock` made to name its nodes as Curator does, by a subclass of two lines: it shares a queue with
    /// Curator and go-zookeeper as they come.
    CuratorNamedMutex,
    /// The read side of Curator's `InterProcessReadWriteLock`, kazoo's `ReadLock`, as they come: neither waits for the
    /// other.
    Read,
    /// The write side of the same, kazoo's `WriteLock`.
    Write,
    /// kazoo's `ReadLock` told of Curator's writers (`extra_lock_patterns=["__WRIT__"]`). Curator cannot be told of
    /// kazoo.
    MixedRead,
    /// kazoo's `WriteLock` told of Curator's readers and writers.
    MixedWrite,
    /// Curator's `InterProcessSemaphoreMutex`, which any thread may release.
    SemaphoreMutex,
    /// Curator's `InterProcessSemaphoreV2` and kazoo's `Semaphore`, whose layouts have nothing in common.
    Semaphore {
        /// How many can be held at once; all who share the path must say the same.
        permits: u32,
    },
    /// Curator's `InterProcessSemaphoreV2` with as many permits as a `SharedCount` says.
    SharedSemaphore {
        /// The path of the count; made as 0 if it is not there.
        count: &'static str,
    },
    /// Curator's `LeaderLatch`: to lead is to hold it. It takes no other recipe's entries for its own.
    LeaderLatch,
    /// Curator's `LeaderSelector`: to lead is to hold it. It stands in line as an `InterProcessMutex` does.
    LeaderSelector,
    /// kazoo's `Election`: to lead is to hold it. It stands in line as a `Lock` does.
    Election,
}

impl Kind {
    pub(super) fn word(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Mutex => "mutex",
            Self::MixedMutex => "mixed-mutex",
            Self::OwnedMutex => "owned-mutex",
            Self::CuratorNamedMutex => "curator-named-mutex",
            Self::Read => "read",
            Self::Write => "write",
            Self::MixedRead => "mixed-read",
            Self::MixedWrite => "mixed-write",
            Self::SemaphoreMutex => "semaphore-mutex",
            Self::LeaderLatch => "leader-latch",
            Self::LeaderSelector => "leader-selector",
            Self::Election => "election",
            Self::Semaphore { permits } => return Cow::Owned(format!("semaphore:{permits}")),
            Self::SharedSemaphore { count } => return Cow::Owned(format!("semaphore@{count}")),
        })
    }
}

/// The last state that Curator's `SharedCount` was told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SharedCount {
    /// The number.
    pub value: i32,
    /// The version of its node.
    pub version: i32,
}
