//! What stands in a queue, and what a look at a queue shows.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Error, ErrorKind, FencingToken, Operation, Result, Standing};

/// The name that a contender carries from before it is sent, so that it is found again when the reply is lost.
///
/// 128 random bits: two tickets never meet. On ZooKeeper it is the `_c_<uuid>` of Curator's protection mode.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ticket(u128);

impl Ticket {
    /// Mints a ticket from the system's randomness.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Backend`] if the system has no randomness to give.
    pub fn mint() -> Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|source| {
            Error::transient(ErrorKind::Backend, Operation::Join, "the system gave no randomness").caused_by(source)
        })?;
        Ok(Self(u128::from_ne_bytes(bytes)))
    }

    /// Makes the ticket with these bits; for backends that read it back from their service.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Returns the bits.
    pub const fn bits(self) -> u128 {
        self.0
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for Ticket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Ticket({self})")
    }
}

/// What a contender asks for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Mode {
    /// The lock, alone, in a queue of mutex contenders only.
    Mutex,
    /// A share of a read/write lock.
    Read,
    /// A read/write lock, alone.
    Write,
}

impl Mode {
    /// Returns the mode's name, as shown and as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Who a contender is, for people to read; nothing is decided by it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Owner {
    /// The machine's name.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// The program's name, without its arguments, since these can be secrets.
    pub command: String,
}

impl Owner {
    /// Describes a contender by hand.
    pub fn new(host: impl Into<String>, pid: u32, command: impl Into<String>) -> Self {
        Self { host: host.into(), pid, command: command.into() }
    }

    /// Describes this process.
    pub fn this_process() -> Self {
        let program = std::env::args_os().next().unwrap_or_default();
        let command = std::path::Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { host, pid: std::process::id(), command }
    }
}

/// `web-3 pid 4121 backup.sh`
impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} pid {} {}", self.host, self.pid, self.command)
    }
}

/// A place asked for in a queue.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name under which it can be withdrawn, whether or not the reply ever came.
    pub ticket: Ticket,
    /// What is asked for.
    pub mode: Mode,
    /// Who asks.
    pub owner: Arc<Owner>,
}

/// A contender's identity within its queue, never used twice there; its text is the service's own.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ContenderId(Arc<str>);

impl ContenderId {
    /// Takes the service's own name for a contender.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// Returns the service's own name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContenderId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One contender, as a look at the queue shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Contender {
    /// Which one it is.
    pub id: ContenderId,
    /// Its ticket, if it is one of a client that gives tickets.
    pub ticket: Option<Ticket>,
    /// What it asks for.
    pub mode: Mode,
}

/// The connection on which something was seen; what was seen on one proves nothing on another.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Version(pub u64);

/// A queue as it stood at one moment, first contender first.
#[derive(Clone, Debug)]
pub struct QueueView {
    /// The connection that the view was seen on.
    pub version: Version,
    /// The contenders in their order.
    pub contenders: Arc<[Contender]>,
}

/// What a contender gets for joining.
#[derive(Clone, Debug)]
pub struct Enqueued {
    /// Our identity in the queue.
    pub id: ContenderId,
    /// The token that is ours if we are granted from this place.
    pub token: FencingToken,
    /// The queue as it stood just after we joined; we are in it.
    pub view: QueueView,
    /// What may be believed of our place from now on.
    pub standing: Arc<dyn Standing>,
}

/// How the contender ahead went.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Departure {
    /// It left the queue for good, seen on the connection that the view was seen on.
    Gone,
    /// Something happened that proves nothing: look again.
    Recheck,
}

/// One contender, as an operator sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ContenderInfo {
    /// Which one it is.
    pub id: ContenderId,
    /// What it asks for.
    pub mode: Mode,
    /// Its token, if the service shows it.
    pub token: Option<FencingToken>,
    /// The session that it lives by, in the service's own words, if there is such a thing.
    pub session: Option<String>,
    /// Who it is, if that can be known.
    pub owner: Option<Owner>,
    /// When it joined, in time since 1970-01-01 UTC, if that can be known.
    pub since_unix: Option<Duration>,
}

impl ContenderInfo {
    /// Describes a contender of which nothing more is known.
    pub fn new(id: ContenderId, mode: Mode) -> Self {
        Self { id, mode, token: None, session: None, owner: None, since_unix: None }
    }
}
