//! The recipes of a peer.

use std::borrow::Cow;

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
    /// The word of the command.
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
