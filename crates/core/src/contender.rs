//! The contenders of a queue, and what may be asked of them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::caller::{Caller, TicketHead};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::randomness;
use crate::token::FencingToken;

/// The length of a ticket's text form, in bytes.
const TICKET_BYTES: usize = 32;

/// The last 32 bits of the ticket of a place that is kept while no task holds it: "kept" in ASCII. One other ticket in
/// four billion has them too, which costs a request and decides nothing.
const KEPT: u128 = 0x6b65_7074;

/// The bits that tell a kept place.
const KEPT_MASK: u128 = 0xffff_ffff;

/// The name that a contender gets before it is sent, so that it is found again when the reply is lost.
///
/// 128 bits, of which 96 or more are random: two tickets are never equal. On ZooKeeper it is the `_c_<uuid>` of
/// Curator's protection mode.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ticket(u128);

impl Ticket {
    /// Makes a ticket from the system's randomness.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Backend`] if the system provides no randomness.
    pub fn mint() -> Result<Self> {
        let bits = randomness::next_128_bits().map_err(|source| {
            Error::transient(ErrorKind::Backend, Operation::Join, "the system gave no randomness").caused_by(source)
        })?;
        Ok(Self(bits))
    }

    /// Makes a ticket for a place that its process may keep while no task holds the lock.
    ///
    /// # Errors
    ///
    /// As [`Ticket::mint`].
    pub fn mint_kept() -> Result<Self> {
        Self::mint().map(|Self(bits)| Self(bits & !KEPT_MASK | KEPT))
    }

    /// Tells whether its place may be kept while no task holds the lock. Its process gives an idle place up when
    /// another contender joins.
    pub const fn is_kept(self) -> bool {
        self.0 & KEPT_MASK == KEPT
    }

    /// Makes the ticket with these bits; for backends that read it back from their service.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        let is_ours = text.len() == TICKET_BYTES && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        u128::from_str_radix(text, 16).ok().filter(|_| is_ours).map(Self)
    }

    /// Returns the bits.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// Returns its first half, by which a nested contender names the one around it.
    pub const fn head(self) -> TicketHead {
        TicketHead::from_bits((self.0 >> 64) as u64)
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
///
/// It is exhaustive, so that the decision on which contender waits for which, and each backend's notation, is complete
/// over it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(clippy::exhaustive_enums, reason = "the decision and each notation are complete over it")]
pub enum Mode {
    /// A mutex: the lock, alone. [`MutexRole`](crate::MutexRole) tells what it is to a read/write lock of the same
    /// name.
    Mutex,
    /// A share of a read/write lock.
    Read,
    /// A read/write lock, alone.
    Write,
    /// A mutex or a read/write lock, alone: the names of some clients do not tell which. It is only seen, never asked
    /// for.
    Exclusive,
    /// To acquire permits of a semaphore: a place among its waiters.
    Acquire,
    /// One permit of a semaphore.
    Permit,
    /// To lead.
    Candidate,
    /// To take part in a barrier.
    Member,
}

impl Mode {
    /// Returns the mode's name, as shown and as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Read => "read",
            Self::Write => "write",
            Self::Exclusive => "exclusive",
            Self::Acquire => "acquire",
            Self::Permit => "permit",
            Self::Candidate => "candidate",
            Self::Member => "member",
        }
    }

    /// Tells whether contenders of this mode are counted, so that all of them matter; the others stand in an order, and
    /// few of them do.
    pub const fn is_counted(self) -> bool {
        matches!(self, Self::Permit | Self::Member)
    }

    /// Reads a mode's name.
    pub fn from_name(name: &str) -> Option<Self> {
        const ALL: [Mode; 8] = [
            Mode::Mutex,
            Mode::Read,
            Mode::Write,
            Mode::Exclusive,
            Mode::Acquire,
            Mode::Permit,
            Mode::Candidate,
            Mode::Member,
        ];
        ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The owner of a contender, for display; nothing is decided by it.
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
    /// Describes an owner by these values.
    pub fn new(host: impl Into<String>, pid: u32, command: impl Into<String>) -> Self {
        Self { host: host.into(), pid, command: command.into() }
    }

    /// Describes this process.
    pub fn this_process() -> Self {
        let program = std::env::args_os().next().unwrap_or_default();
        let command = std::path::Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { host: host_name(), pid: std::process::id(), command }
    }
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The name that Windows gives each process in its environment.
#[cfg(windows)]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// `web-3 pid 4121 backup.sh`
impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} pid {} {}", self.host, self.pid, self.command)
    }
}

/// Where in the queue an entry takes its place.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "each backend places every one")]
pub enum Rank {
    /// Behind all others.
    #[default]
    Tail,
    /// Right behind this contender of the same session, before all contenders that came after it, and with the same
    /// token: a read inside a held write, so that the write can be given up without a gap.
    With(ContenderId),
}

/// How long a contender lives.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "each backend keeps every one")]
pub enum Lifetime {
    /// As long as its session.
    #[default]
    Session,
    /// Until it is removed, also after the end of the session and of the process: a lock that is frozen for
    /// maintenance.
    Persistent {
        /// The reason, for waiters.
        reason: Arc<str>,
    },
}

/// A request for a place in a queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The name under which it can be withdrawn, whether or not the reply arrived.
    pub ticket: Ticket,
    /// What is asked for.
    pub mode: Mode,
    /// Where it takes its place.
    pub rank: Rank,
    /// How long it lives.
    pub lifetime: Lifetime,
    /// The owner.
    pub owner: Arc<Owner>,
    /// Whose it is, more closely.
    pub caller: Caller,
}

impl Entry {
    /// Asks for a place at the tail that lives as long as its session, of a caller that is not known more closely.
    pub fn new(ticket: Ticket, mode: Mode, owner: Arc<Owner>) -> Self {
        let (rank, lifetime, caller) = (Rank::Tail, Lifetime::Session, Caller::default());
        Self { ticket, mode, rank, lifetime, owner, caller }
    }
}

/// A contender's identity within its queue, never used twice there; the service chooses its text.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ContenderId(Arc<str>);

impl ContenderId {
    /// Takes the service's name for a contender.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// Returns the service's name for it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContenderId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One contender, as a view of the queue shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Contender {
    /// Its identity.
    pub id: ContenderId,
    /// Its ticket, if its client gives tickets.
    pub ticket: Option<Ticket>,
    /// What it asks for.
    pub mode: Mode,
}

/// How the wait for the contender ahead ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a waiter handles every one")]
pub enum Departure {
    /// It left the queue for good, seen on the connection that the view was seen on.
    Gone,
    /// An event that proves nothing: look again.
    Recheck,
}

/// One contender, as an operator sees it.
///
/// With the feature `serde` it is serialized with the names of the command's JSON; its times are those since 1970, as
/// `since_unix_ms`, `granted_unix_ms` and `until_unix_ms`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ContenderInfo {
    /// Its identity.
    pub id: ContenderId,
    /// Its ticket, if its client gives tickets.
    pub ticket: Option<Ticket>,
    /// What it asks for.
    pub mode: Mode,
    /// Its token, if the service shows it.
    pub token: Option<FencingToken>,
    /// The session that it depends on, in the service's notation, if there is one.
    pub session: Option<String>,
    /// Its owner, if known.
    pub owner: Option<Owner>,
    /// What its client has written about it instead, at most 200 bytes; it may be anything.
    pub label: Option<String>,
    /// Whose it is, more closely, as far as it is known.
    pub caller: Caller,
    /// When it joined, in time since 1970-01-01 UTC, if known.
    pub since_unix: Option<Duration>,
    /// When it was granted what it holds, in time since 1970-01-01 UTC, if known. A contender that has waited joined
    /// long before.
    pub granted_unix: Option<Duration>,
    /// Why the lock is frozen, if this contender is what freezes it.
    pub frozen: Option<String>,
    /// The request to give up that it was sent, if any.
    pub revocation: Option<Revocation>,
    /// Whether its client receives such a request.
    pub answers: Answers,
}

/// Whether a contender's client receives a request to give up. What its program then does is its own matter.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Answers {
    /// It does: it is this library.
    Yes,
    /// It may, if its program has asked for that, as with Curator's `Revocable` and with the latches and selectors of
    /// this library; or it is not known whose it is.
    Unknown,
    /// It does not: its client knows no requests.
    No,
}

impl Answers {
    /// What is so of a contender of this library.
    pub const fn of(caller: &Caller) -> Self {
        if caller.may_ignore { Self::Unknown } else { Self::Yes }
    }
}

impl ContenderInfo {
    /// Describes a contender about which nothing else is known.
    pub fn new(id: ContenderId, mode: Mode) -> Self {
        Self {
            id,
            ticket: None,
            mode,
            token: None,
            session: None,
            owner: None,
            label: None,
            caller: Caller::default(),
            since_unix: None,
            granted_unix: None,
            frozen: None,
            revocation: None,
            answers: Answers::Unknown,
        }
    }

    /// Tells whether its process may keep its place while no task holds the lock: it is in use, or idle.
    pub fn is_kept(&self) -> bool {
        self.ticket.is_some_and(Ticket::is_kept)
    }
}

/// A polite request to give up what is held, or a place in the queue.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Revocation {
    /// The reason, if one was given; requests of foreign clients cannot carry one.
    pub why: Option<String>,
    /// The time within which to give up, if one was given.
    pub within: Option<Duration>,
}

impl Revocation {
    /// Describes a request.
    pub fn new(why: Option<String>, within: Option<Duration>) -> Self {
        Self { why, within }
    }
}

/// A request to a contender of any client.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// To give up, when it can.
    Yield(Revocation),
    /// To be removed, without its owner's consent. The owner learns of it as
    /// [`LossReason::Broken`](crate::LossReason::Broken).
    Break {
        /// The token that it must have.
        token: FencingToken,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_ticket_is_told_from_others_by_its_text_too() {
        let [kept, other] = [Ticket::mint_kept().unwrap(), Ticket::mint_kept().unwrap()];
        assert!(kept.is_kept() && kept != other && kept.head() != other.head());
        assert!(Ticket::parse(&kept.to_string()).unwrap().is_kept());
        assert!(!Ticket::from_bits(kept.bits() + 1).is_kept());
        let mut info = ContenderInfo::new(ContenderId::new("a"), Mode::Mutex);
        assert!(!info.is_kept(), "its client gives no tickets");
        info.ticket = Some(kept);
        assert!(info.is_kept());
    }

    #[test]
    fn a_tickets_text_is_read_back_and_begins_with_its_head() {
        let ticket = Ticket::from_bits(0x0123_4567_89ab_cdef_0000_0000_0000_0007);
        assert_eq!(ticket.to_string(), "0123456789abcdef0000000000000007");
        assert_eq!(Ticket::parse(&ticket.to_string()), Some(ticket));
        assert_eq!(ticket.head().to_string(), "0123456789abcdef");
        for wrong in ["", "7", "0123456789ABCDEF0000000000000007", "+123456789abcdef0000000000000007"] {
            assert_eq!(Ticket::parse(wrong), None, "{wrong:?}");
        }
    }
}
