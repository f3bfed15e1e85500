//! The layout of the data: keys, and the names in them. Pure.
//!
//! All keys of a base begin with it as a hash tag, so that they lie in one slot: `{lockkeeper}`.
//!
//! | key | type | what |
//! | --- | --- | --- |
//! | `{base}` | hash | the last token; the service's clock, and how far it goes at once |
//! | `{base}:ss` | sorted set | sessions, by when they end on that clock |
//! | `{base}:g` | sorted set | sessions, by how far each lets that clock go at once |
//! | `{base}:s:<session>` | hash | its connection's epoch, its timeout, its owner; which of its contenders were broken |
//! | `{base}:t:<session>` | sorted set | its contenders: part, name and member of each |
//! | `{base}:a:<session>` | string | there while the session is; its owner is told when it goes |
//! | `{base}:q:<part>:<lock>:<mode>` | sorted set | contenders of one mode, by grant |
//! | `{base}:c:<ticket>` | string | a contender's record; those behind it are told when it goes |
//! | `{base}:v:<part>:<lock>` | hash | the value of a queue |
//! | `{base}:n` | sorted set | the locks that have contenders |
//!
//! A queue is ordered by grant and number. One contender beside another has its grant, and the next number.
//!
//! With [`KeyScheme::Setnx`] all of these begin with `{base}:setnx` instead, and there is one more:
//! `{base}:setnx:h:<session>`, a sorted set of the plain locks that contenders of a session hold. A plain lock is a key
//! that has the lock's name alone, outside the base. Its value is ours if it is the key of a contender's record.

use lockkeeper_core::{Contender, ContenderId, FencingToken, Mode, Part, QueueName, Ticket};
use lockkeeper_session::{hexadecimal_number, part_letter};

use crate::connection;
use crate::script::{KeyScheme, Script};

/// The bits of a session's number: 10 digits of 5 bits, so that a member has at most 64 bytes.
const SESSION_BITS: u32 = 50;

const SESSION_DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// With the braces of its hash tag.
    base: String,
    naming: KeyScheme,
}

impl Layout {
    /// Takes a base, which has no braces.
    pub(crate) fn new(base: &str, naming: KeyScheme) -> Self {
        let base = match naming {
            KeyScheme::Ours => format!("{{{base}}}"),
            // So the queues of both layouts are apart, and the rights to a base are the rights to both.
            KeyScheme::Setnx => format!("{{{base}}}:setnx"),
        };
        Self { base, naming }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn script(&self, script: Script) -> &'static connection::LoadedScript {
        script.get(self.naming)
    }

    /// The scripts that locks need, for a connection that is to know them.
    pub(crate) fn scripts(&self) -> &'static [connection::LoadedScript] {
        Script::of_locks(self.naming)
    }

    /// The prefixes of the keys that change when a lock does: those of queues and of records.
    pub(crate) fn shown_keys(&self) -> [String; 2] {
        ["q", "c"].map(|kind| format!("{}:{kind}:", self.base))
    }

    /// Classifies a key that has changed.
    pub(crate) fn subject<'a>(&self, key: &'a str) -> KeySubject<'a> {
        let [queues, records] = self.shown_keys();
        if let Some(ticket) = key.strip_prefix(&records) {
            return Ticket::parse(ticket).map_or(KeySubject::Nothing, KeySubject::Record);
        }
        let Some(rest) = key.strip_prefix(&queues) else {
            return if self.naming == KeyScheme::Setnx { KeySubject::Plain(key) } else { KeySubject::Nothing };
        };
        let lock = rest.split_once(':').and_then(|(_, rest)| rest.rsplit_once(':'));
        lock.map_or(KeySubject::Nothing, |(lock, _)| KeySubject::Lock(lock))
    }

    pub(crate) fn names(&self) -> String {
        format!("{}:n", self.base)
    }

    /// The key of the plain lock that the first contender of a queue takes; `None` where there is none.
    pub(crate) fn plain<'a>(&self, queue: &'a QueueName) -> Option<&'a str> {
        (self.naming == KeyScheme::Setnx && queue.part() == Part::Line).then(|| queue.as_str())
    }

    pub(crate) fn has_plain(&self) -> bool {
        self.naming == KeyScheme::Setnx
    }

    pub(crate) fn refusal(&self, queue: &QueueName) -> Option<String> {
        if self.naming == KeyScheme::Ours {
            return None;
        }
        let tag = self.base.strip_suffix(":setnx").unwrap_or(&self.base);
        let is_ours = queue.as_str().starts_with(tag);
        is_ours.then(|| format!("with `layout=setnx` a lock's name is a key, and those that begin with {tag} are ours"))
    }

    pub(crate) fn alive(&self, session: RedisSessionId) -> String {
        format!("{}:a:{session}", self.base)
    }

    pub(crate) fn contender(&self, ticket: Ticket) -> String {
        format!("{}:c:{ticket}", self.base)
    }

    /// The keys of all queues of a lock: those of the part that is named, then those on its other side.
    pub(crate) fn queues(&self, queue: &QueueName) -> Vec<String> {
        let name = queue.encoded();
        let parts = std::iter::once(queue.part()).chain(queue.part().opposite().iter().copied());
        let key =
            |part: Part, mode: &Mode| format!("{}:q:{}:{name}:{}", self.base, part_letter(part), mode_letter(*mode));
        parts.flat_map(|part| modes_of(part).iter().map(move |mode| key(part, mode)).collect::<Vec<_>>()).collect()
    }

    pub(crate) fn value(&self, queue: &QueueName) -> String {
        format!("{}:v:{}:{}", self.base, part_letter(queue.part()), queue.encoded())
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum KeySubject<'a> {
    /// A queue of a lock, by the lock's encoded name.
    Lock(&'a str),
    Record(Ticket),
    Plain(&'a str),
    Nothing,
}

/// The name of a lock in the list of locks: encoded, followed by the name itself if it cannot be decoded.
pub(crate) fn listed(queue: &QueueName) -> String {
    let encoded = queue.encoded();
    if QueueName::is_digest(&encoded) { format!("{encoded} {queue}") } else { encoded }
}

/// Reads the name of a lock as the list has it.
pub(crate) fn read_listed(listed: &str) -> Option<QueueName> {
    match listed.split_once(' ') {
        Some((_, name)) => QueueName::new(name).ok(),
        None => QueueName::decode(listed),
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct RedisSessionId(u64);

impl RedisSessionId {
    /// Takes the last bits of random ones.
    pub(crate) const fn from_random(bits: u128) -> Self {
        Self((bits & ((1 << SESSION_BITS) - 1)) as u64)
    }

    fn parse(text: &str) -> Option<Self> {
        if text.len() != (SESSION_BITS / 5) as usize {
            return None;
        }
        let digit = |byte: u8| SESSION_DIGITS.iter().position(|&digit| digit == byte);
        text.bytes().try_fold(0, |bits, byte| Some((bits << 5) | digit(byte)? as u64)).map(Self)
    }
}

impl std::fmt::Display for RedisSessionId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut digits = [0; (SESSION_BITS / 5) as usize];
        for (at, digit) in digits.iter_mut().rev().enumerate() {
            *digit = SESSION_DIGITS[(self.0 >> (5 * at)) as usize % SESSION_DIGITS.len()];
        }
        formatter.write_str(str::from_utf8(&digits).map_err(|_| std::fmt::Error)?)
    }
}

/// The parsed name of a contender in its queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct QueueMember {
    pub(crate) grant: u64,
    /// Its number among the contenders with this grant.
    pub(crate) number: u32,
    pub(crate) mode: Mode,
    pub(crate) ticket: Ticket,
    /// `None` if it outlives its session.
    pub(crate) session: Option<RedisSessionId>,
}

impl QueueMember {
    /// Reads a name as the scripts write it; `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(':');
        let (grant, number) = fields.next()?.split_once('.')?;
        let mode = mode_of(fields.next()?)?;
        let ticket = Ticket::parse(fields.next()?)?;
        let session = match fields.next()? {
            "-" => None,
            session => Some(RedisSessionId::parse(session)?),
        };
        let (grant, number) = (hexadecimal_number(grant, 14)?, u32::try_from(hexadecimal_number(number, 3)?).ok()?);
        fields.next().is_none().then_some(Self { grant, number, mode, ticket, session })
    }

    pub(crate) fn of(id: &ContenderId) -> Option<Self> {
        Self::parse(id.as_str())
    }

    pub(crate) fn contender(&self) -> Contender {
        Contender { id: self.id(), ticket: Some(self.ticket), mode: self.mode }
    }

    pub(crate) fn id(&self) -> ContenderId {
        ContenderId::new(self.to_string())
    }

    /// `None` of a number that no token can hold, which no script writes.
    pub(crate) fn token(&self) -> Option<FencingToken> {
        FencingToken::new(self.grant, 0)
    }

    pub(crate) const fn place(&self) -> (u64, u32) {
        (self.grant, self.number)
    }
}

impl std::fmt::Display for QueueMember {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { grant, number, mode, ticket, session } = self;
        write!(formatter, "{grant:014x}.{number:03x}:{}:{ticket}:", mode_letter(*mode))?;
        match session {
            Some(session) => write!(formatter, "{session}"),
            None => formatter.write_str("-"),
        }
    }
}

/// Mutexes and read/write locks of other clients, [`Mode::Exclusive`], are in no queue.
const MODES: [Mode; 7] =
    [Mode::Mutex, Mode::Read, Mode::Write, Mode::Candidate, Mode::Member, Mode::Permit, Mode::Acquire];

/// The modes that are in queues of this part.
const fn modes_of(part: Part) -> &'static [Mode] {
    match part {
        Part::Line => &[Mode::Mutex, Mode::Read, Mode::Write, Mode::Candidate, Mode::Member],
        Part::Permits => &[Mode::Permit],
        Part::Waiters => &[Mode::Acquire],
    }
}

pub(crate) const fn mode_letter(mode: Mode) -> &'static str {
    match mode {
        Mode::Mutex | Mode::Exclusive => "m",
        Mode::Read => "r",
        Mode::Write => "w",
        Mode::Candidate => "c",
        Mode::Member => "b",
        Mode::Permit => "p",
        Mode::Acquire => "g",
    }
}

pub(crate) fn mode_of(letter: &str) -> Option<Mode> {
    MODES.into_iter().find(|mode| mode_letter(*mode) == letter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member() -> impl Strategy<Value = QueueMember> {
        let mode = proptest::sample::select(MODES.to_vec());
        let session = proptest::option::of(any::<u128>().prop_map(RedisSessionId::from_random));
        (0..1_u64 << 53, 0..4_096_u32, mode, any::<u128>(), session).prop_map(|(grant, number, mode, bits, session)| {
            let ticket = Ticket::from_bits(bits);
            QueueMember { grant, number, mode, ticket, session }
        })
    }

    #[test]
    fn all_keys_of_a_base_lie_in_one_slot() {
        let layout = Layout::new("lockkeeper", KeyScheme::Ours);
        let queue = QueueName::new("a/b").unwrap();
        let session = RedisSessionId::from_random(33);
        let keys = [layout.alive(session), layout.contender(Ticket::from_bits(1)), layout.value(&queue)];
        for key in keys.iter().chain(&layout.queues(&queue)) {
            assert!(key.starts_with("{lockkeeper}:"), "{key}");
        }
        assert_eq!(layout.alive(session), "{lockkeeper}:a:0000000011");
        assert_eq!(layout.queues(&queue)[..2], ["{lockkeeper}:q:l:a%2Fb:m", "{lockkeeper}:q:l:a%2Fb:r"]);
        assert_eq!(layout.queues(&queue).len(), MODES.len());
        assert_eq!(layout.queues(&queue.with_part(Part::Permits)).len(), 6);
    }

    #[test]
    fn a_key_says_what_has_changed() {
        let (layout, shared) = (Layout::new("x", KeyScheme::Ours), Layout::new("x", KeyScheme::Setnx));
        let queue = QueueName::new("a:b/c").unwrap();
        for key in layout.queues(&queue) {
            assert_eq!(layout.subject(&key), KeySubject::Lock(&queue.encoded()));
        }
        let ticket = Ticket::from_bits(7);
        assert_eq!(layout.subject(&layout.contender(ticket)), KeySubject::Record(ticket));
        assert_eq!(shared.subject(&shared.contender(ticket)), KeySubject::Record(ticket));
        assert_eq!(shared.subject("door"), KeySubject::Plain("door"));
        for key in ["door", "{x}:c:7", "{x}:q:", "{x}:q:l:door", "{x}:ss"] {
            assert_eq!(layout.subject(key), KeySubject::Nothing, "{key}");
        }
    }

    #[test]
    fn a_plain_lock_has_the_locks_name_and_cannot_be_a_key_of_ours() {
        let layout = Layout::new("lockkeeper", KeyScheme::Setnx);
        let queue = |name: &str| QueueName::new(name).unwrap();
        assert_eq!(layout.base(), "{lockkeeper}:setnx");
        assert_eq!(layout.plain(&queue("Lock-0")), Some("Lock-0"));
        assert_eq!(layout.plain(&queue("Lock-0").with_part(Part::Permits)), None);
        assert_eq!(Layout::new("lockkeeper", KeyScheme::Ours).plain(&queue("Lock-0")), None);
        for refused in ["{lockkeeper}", "{lockkeeper}:setnx:c:1", "{lockkeeper}x"] {
            assert!(layout.refusal(&queue(refused)).is_some(), "{refused}");
            assert!(Layout::new("lockkeeper", KeyScheme::Ours).refusal(&queue(refused)).is_none(), "{refused}");
        }
        for taken in ["Lock-0", "lockkeeper", "a b/c:{d}", "%41", &"é".repeat(100)] {
            assert!(layout.refusal(&queue(taken)).is_none(), "{taken}");
        }
    }

    #[test]
    fn a_listed_name_is_read_back_whether_or_not_it_can_be_decoded() {
        for text in ["door", "a b", "..", &"é".repeat(100), &format!("{}~{}", "y".repeat(120), "0".repeat(32))] {
            let name = QueueName::new(text).unwrap();
            assert_eq!(read_listed(&listed(&name)), Some(name));
        }
        assert_eq!(read_listed("%zz"), None);
    }

    #[test]
    fn every_mode_has_one_letter() {
        assert!(MODES.iter().all(|mode| mode_of(mode_letter(*mode)) == Some(*mode)));
    }

    proptest! {
        #[test]
        fn a_member_is_read_back_and_has_at_most_64_bytes(member in member()) {
            let text = member.to_string();
            prop_assert!(text.len() <= 64);
            prop_assert_eq!(QueueMember::parse(&text), Some(member));
        }

        #[test]
        fn members_with_one_grant_are_in_the_order_of_their_numbers(one in member(), number in 0..4_096_u32) {
            let other = QueueMember { number, ..one };
            prop_assert_eq!(one.to_string().cmp(&other.to_string()), one.place().cmp(&other.place()));
        }

        #[test]
        fn what_is_no_member_is_none(text in "\\PC{0,70}") {
            if let Some(member) = QueueMember::parse(&text) {
                prop_assert_eq!(member.to_string(), text);
            }
        }
    }
}
