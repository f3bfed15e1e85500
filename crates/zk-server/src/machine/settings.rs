//! The settings of a machine: its times, the four-letter words that it answers, and its limits.
//!
//! All limits follow from one number of bytes of memory, of which each thing has a share. The shares add up to the
//! whole. What a thing takes is estimated where it is counted.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lockkeeper_zk_proto::frame::FRAME_BYTES_DEFAULT_MAX;

/// The tick of Apache's example configuration.
const TICK_DEFAULT: Duration = Duration::from_secs(2);
/// How many ticks the shortest session timeout has, as in Apache.
const SESSION_TIMEOUT_TICKS_MIN: u32 = 2;
/// How many ticks the longest session timeout has, as in Apache.
const SESSION_TIMEOUT_TICKS_MAX: u32 = 20;
/// How often containers and nodes with a time to live are looked at; Apache's `znode.container.checkIntervalMs`.
const CONTAINER_CHECK_DEFAULT: Duration = Duration::from_secs(60);

/// The settings of a [`super::ServerMachine`].
#[derive(Clone, Debug)]
pub struct MachineSettings {
    /// The width of the buckets in which sessions expire.
    pub tick: Duration,
    /// The shortest session timeout; 2 ticks if not given.
    pub session_timeout_min: Option<Duration>,
    /// The longest session timeout; 20 ticks if not given. If it is less than the shortest, the shortest counts.
    pub session_timeout_max: Option<Duration>,
    /// The longest body of a request (`jute.maxbuffer`), in bytes.
    pub frame_bytes_max: usize,
    /// How often containers and nodes with a time to live are looked at.
    pub container_check: Duration,
    /// How much there may be of each thing.
    pub limits: MemoryLimits,
    /// The four-letter words that are answered.
    pub words: WordSet,
    /// The super user: `super:` and the digest, as in Apache's `superDigest`.
    pub super_digest: Option<String>,
    /// Whether records are handed out to be stored.
    pub keeps_records: bool,
}

impl Default for MachineSettings {
    fn default() -> Self {
        Self {
            tick: TICK_DEFAULT,
            session_timeout_min: None,
            session_timeout_max: None,
            frame_bytes_max: FRAME_BYTES_DEFAULT_MAX,
            container_check: CONTAINER_CHECK_DEFAULT,
            limits: MemoryLimits::default(),
            words: WordSet::ALL,
            super_digest: None,
            keeps_records: false,
        }
    }
}

impl MachineSettings {
    /// The timeout granted to a session that asks for `timeout_ms`.
    pub(crate) fn negotiate(&self, timeout_ms: i32) -> i32 {
        let millis = |given: Option<Duration>, ticks| {
            i32::try_from(given.unwrap_or(self.tick * ticks).as_millis()).unwrap_or(i32::MAX)
        };
        let least = millis(self.session_timeout_min, SESSION_TIMEOUT_TICKS_MIN);
        timeout_ms.min(millis(self.session_timeout_max, SESSION_TIMEOUT_TICKS_MAX)).max(least)
    }
}

/// The memory if none is given, in bytes: half of it is a gibibyte for nodes.
const MEMORY_BYTES_DEFAULT: usize = 2 << 30;
/// The least memory, in bytes: one frame of each kind, and some clients, fit into the shares.
pub(crate) const MEMORY_BYTES_MIN: usize = 64 << 20;
/// What a connection takes while nothing is under way on it, in bytes: its tasks, buffers and descriptor.
const CONNECTION_BYTES: usize = 8 << 10;
/// What a session takes, in bytes.
const SESSION_BYTES: usize = 256;
/// How much may wait for a client before it is served no further, in bytes: a client that asks must read the answers.
pub(crate) const UNREAD_BYTES_MAX: usize = 1 << 20;
/// How long a connection may take for its handshake, as in Apache; a slower one holds a descriptor for nothing.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many identities one connection may have; no sensible client adds more.
pub(crate) const IDENTITIES_MAX: usize = 64;

/// The limits that follow from one amount of memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MemoryLimits {
    /// Nodes with their data.
    pub(crate) tree_bytes_max: usize,
    pub(crate) watch_bytes_max: usize,
    pub(crate) watch_bytes_per_connection_max: usize,
    /// What waits for all clients to be read.
    pub(crate) queued_bytes_max: usize,
    /// What waits for one client to be read, events among it: a client that asks is not served so far.
    pub(crate) queued_bytes_per_connection_max: usize,
    /// Answers that wait for their records to be stored.
    pub(crate) held_bytes_max: usize,
    /// Requests that have not come whole, or are not served yet, of all connections.
    pub(crate) request_bytes_max: usize,
    /// What one input may cause to be sent: events to many clients.
    pub(crate) answered_bytes_max: usize,
    /// The answers to one request; reading one large node over and over in one would otherwise fill the memory.
    pub(crate) multi_read_bytes_max: usize,
    pub(crate) connections_max: usize,
    pub(crate) sessions_max: usize,
}

impl MemoryLimits {
    /// The limits of a server that may take this much memory, in bytes; less than 64 MiB counts as that.
    pub const fn of_memory(bytes: usize) -> Self {
        let bytes = if bytes < MEMORY_BYTES_MIN { MEMORY_BYTES_MIN } else { bytes };
        Self {
            tree_bytes_max: bytes / 2,
            watch_bytes_max: bytes / 8,
            watch_bytes_per_connection_max: bytes / 32,
            queued_bytes_max: bytes / 8,
            queued_bytes_per_connection_max: bytes / 64,
            held_bytes_max: bytes / 32,
            request_bytes_max: bytes / 32,
            answered_bytes_max: bytes / 32,
            multi_read_bytes_max: bytes / 32,
            connections_max: bytes / 16 / CONNECTION_BYTES,
            sessions_max: bytes / 16 / SESSION_BYTES,
        }
    }

    /// Gives the nodes this much memory instead of half of the whole, in bytes.
    #[must_use]
    pub const fn with_tree_bytes_max(self, tree_bytes_max: usize) -> Self {
        Self { tree_bytes_max, ..self }
    }
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self::of_memory(MEMORY_BYTES_DEFAULT)
    }
}

/// The words Apache knows and this server never answers.
const UNKNOWN_HERE: [&str; 9] = ["conf", "crst", "dirs", "gtmk", "hash", "srst", "stmk", "wchc", "cdig"];

/// A four-letter word that this server can answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Word {
    /// Whether all is well.
    Ruok,
    /// The server and its counts.
    Srvr,
    /// The same, and the clients' addresses.
    Stat,
    /// Counts, a line each.
    Mntr,
    /// The connections with their sessions.
    Cons,
    /// The sessions with their ephemeral nodes. As long as there are many of them.
    Dump,
    /// How many watches there are. Looks at each.
    Wchs,
    /// The watches by path. As long as there are many of them.
    Wchp,
    /// The environment.
    Envi,
    /// Whether writes are served, for clients that look for a server.
    Isro,
}

impl Word {
    /// Each of them.
    pub const ALL: [Self; 10] = [
        Self::Ruok,
        Self::Srvr,
        Self::Stat,
        Self::Mntr,
        Self::Cons,
        Self::Dump,
        Self::Wchs,
        Self::Wchp,
        Self::Envi,
        Self::Isro,
    ];

    /// The word as it is sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ruok => "ruok",
            Self::Srvr => "srvr",
            Self::Stat => "stat",
            Self::Mntr => "mntr",
            Self::Cons => "cons",
            Self::Dump => "dump",
            Self::Wchs => "wchs",
            Self::Wchp => "wchp",
            Self::Envi => "envi",
            Self::Isro => "isro",
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Says that a text is not a word that this server can answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownWord;

impl fmt::Display for UnknownWord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = Word::ALL.iter().map(|word| word.as_str()).collect();
        write!(formatter, "not one of {}", words.join(", "))
    }
}

impl std::error::Error for UnknownWord {}

impl FromStr for Word {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|word| word.as_str() == text).ok_or(UnknownWord)
    }
}

/// The words that a server answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WordSet(u16);

impl WordSet {
    /// All of them.
    pub const ALL: Self = Self(u16::MAX);

    /// What the first four bytes of a connection ask for.
    pub(super) fn parse(self, head: &[u8]) -> FirstBytes {
        if let Some(word) = Word::ALL.into_iter().find(|word| word.as_str().as_bytes() == head) {
            return if self.0 & bit(word) == 0 { FirstBytes::Refused(word.as_str()) } else { FirstBytes::Word(word) };
        }
        let unknown = UNKNOWN_HERE.into_iter().find(|word| word.as_bytes() == head);
        unknown.map_or(FirstBytes::Nothing, FirstBytes::Refused)
    }
}

impl FromIterator<Word> for WordSet {
    fn from_iter<Words: IntoIterator<Item = Word>>(words: Words) -> Self {
        Self(words.into_iter().fold(0, |set, word| set | bit(word)))
    }
}

const fn bit(word: Word) -> u16 {
    1 << word as u16
}

/// What the first four bytes of a connection are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FirstBytes {
    Word(Word),
    /// A word that is not.
    Refused(&'static str),
    /// No word.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_kept_between_two_and_twenty_ticks() {
        let settings = MachineSettings::default();
        for (asked, granted) in [(0, 4_000), (i32::MIN, 4_000), (10_000, 10_000), (i32::MAX, 40_000)] {
            assert_eq!(settings.negotiate(asked), granted);
        }
    }

    #[test]
    fn the_least_and_the_greatest_timeout_can_be_set_apart_from_the_tick() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (least, greatest, asked, granted) in [
            (seconds(1), None, 0, 1_000),
            (None, seconds(300), i32::MAX, 300_000),
            (None, seconds(3), 10_000, 4_000),
            (seconds(60), None, 10_000, 60_000),
        ] {
            let settings = MachineSettings {
                session_timeout_min: least,
                session_timeout_max: greatest,
                ..MachineSettings::default()
            };
            assert_eq!(settings.negotiate(asked), granted, "{least:?} to {greatest:?}");
        }
    }

    #[test]
    fn the_shares_are_the_whole() {
        for memory in [MEMORY_BYTES_MIN, MEMORY_BYTES_DEFAULT, 12_345_678_901] {
            let limits = MemoryLimits::of_memory(memory);
            let shares = [
                limits.tree_bytes_max,
                limits.watch_bytes_max,
                limits.queued_bytes_max,
                limits.held_bytes_max,
                limits.request_bytes_max,
                limits.answered_bytes_max,
                limits.multi_read_bytes_max,
                limits.connections_max * CONNECTION_BYTES,
                limits.sessions_max * SESSION_BYTES,
            ];
            let sum: usize = shares.iter().sum();
            assert!(sum <= memory && sum > memory - memory / 100, "{sum} of {memory}");
            assert!(limits.queued_bytes_per_connection_max >= UNREAD_BYTES_MAX, "{limits:?}");
        }
        assert_eq!(MemoryLimits::of_memory(1), MemoryLimits::of_memory(MEMORY_BYTES_MIN));
    }

    #[test]
    fn a_word_is_answered_if_it_is_in_the_set() {
        let few = WordSet::from_iter([Word::Ruok, Word::Mntr]);
        assert_eq!(few.parse(b"ruok"), FirstBytes::Word(Word::Ruok));
        assert_eq!(few.parse(b"wchp"), FirstBytes::Refused("wchp"));
        assert_eq!(few.parse(b"conf"), FirstBytes::Refused("conf"));
        assert_eq!(few.parse(&[0, 0, 0, 45]), FirstBytes::Nothing);
        for word in Word::ALL {
            assert_eq!(word.as_str().parse(), Ok(word));
            assert_eq!(WordSet::ALL.parse(word.as_str().as_bytes()), FirstBytes::Word(word));
            assert_eq!(WordSet::from_iter([]).parse(word.as_str().as_bytes()), FirstBytes::Refused(word.as_str()));
        }
        assert_eq!("RUOK".parse::<Word>(), Err(UnknownWord));
    }
}
