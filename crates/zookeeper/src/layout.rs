//! Names of contenders: how ours are written, so that the locks of another client and ours are the same locks, and
//! which client made a name that is read. Pure.

use std::fmt::Write as _;

use lockkeeper_core::{Mode, Part, Ticket};
use lockkeeper_zk_proto::path::{SEQUENCE_DIGITS, format_sequence, parse_sequence};

/// How our contenders are named, and where the parts of a semaphore lie.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Layout {
    /// Apache Curator's recipes, and go-zookeeper's: `_c_<uuid>-lock-<sequence>`. A semaphore has two nodes below its
    /// lock's node, `locks` and `leases`.
    #[default]
    Curator,
    /// kazoo's: `<32 hexadecimal digits>__lock__<sequence>`. A semaphore's permits lie below its lock's node, its
    /// waiters below another node beside it, whose name ends in `-__lock__`.
    Kazoo,
}

/// How candidates of an election are named: the recipes of other clients pass over each other's names, so one election
/// has one layout.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ElectionLayout {
    /// Curator's `LeaderLatch`: `_c_<uuid>-latch-<sequence>`.
    #[default]
    Latch,
    /// Curator's `LeaderSelector`, which is a mutex: `_c_<uuid>-lock-<sequence>`.
    Selector,
    /// kazoo's `Election`, which is a lock: `<32 hexadecimal digits>__lock__<sequence>`.
    Kazoo,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct NodeNaming {
    pub(crate) layout: Layout,
    pub(crate) election: ElectionLayout,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct NodeName {
    pub(crate) text: String,
    pub(crate) is_sequential: bool,
}

/// Where the waiters of a semaphore lie in Curator's layout, below the lock's own node.
pub(crate) const CURATOR_WAITERS: &str = "locks";

/// Where the permits of a semaphore lie in Curator's layout, below the lock's own node.
pub(crate) const CURATOR_PERMITS: &str = "leases";

/// What the name of the node of a semaphore's waiters ends in, in kazoo's layout; it lies beside the lock's own node.
pub(crate) const KAZOO_WAITERS: &str = "-__lock__";

impl Layout {
    /// The name of the lock's own node, if `node` is that or holds the waiters beside it.
    pub(crate) fn own_node(self, node: &str) -> &str {
        match self {
            Self::Curator => node,
            Self::Kazoo => node.strip_suffix(KAZOO_WAITERS).unwrap_or(node),
        }
    }

    /// Whether this queue's contenders are children of the lock's own node.
    pub(crate) const fn is_in_line(self, part: Part) -> bool {
        matches!((self, part), (_, Part::Line) | (Self::Kazoo, Part::Permits))
    }
}

impl ElectionLayout {
    /// Reads the setting. Without one an election is laid out as the client of the locks' layout does it.
    pub(crate) fn of(setting: &str, layout: Layout) -> Self {
        match (setting, layout) {
            ("kazoo", _) | ("", Layout::Kazoo) => Self::Kazoo,
            ("selector", _) => Self::Selector,
            _ => Self::Latch,
        }
    }

    /// The mode that its candidates are read back as, from any client.
    pub(crate) const fn shown(self) -> Mode {
        match self {
            Self::Latch => Mode::Candidate,
            Self::Selector => Mode::Mutex,
            Self::Kazoo => Mode::Exclusive,
        }
    }
}

impl NodeNaming {
    /// Names a contender at the tail of a queue, but for the sequence number.
    pub(crate) fn at_tail(self, ticket: Ticket, mode: Mode, part: Part) -> NodeName {
        let sequential = |text| NodeName { text, is_sequential: true };
        let curator = |mark| sequential(curator_prefix(ticket) + mark);
        let kazoo = |mark| sequential(ticket.to_string() + mark);
        match (self.layout, part, mode) {
            (_, Part::Line, Mode::Candidate) => match self.election {
                ElectionLayout::Latch => curator("latch-"),
                ElectionLayout::Selector => curator("lock-"),
                ElectionLayout::Kazoo => kazoo("__lock__"),
            },
            (Layout::Curator, Part::Permits, _) => curator("lease-"),
            (Layout::Kazoo, Part::Permits, _) => NodeName { text: ticket.to_string(), is_sequential: false },
            (Layout::Curator, _, Mode::Write) => curator("__WRIT__"),
            (Layout::Curator, _, Mode::Read) => curator("__READ__"),
            (Layout::Curator, _, Mode::Member) => curator("member-"),
            (Layout::Curator, ..) => curator("lock-"),
            (Layout::Kazoo, _, Mode::Read) => kazoo("__rlock__"),
            (Layout::Kazoo, _, Mode::Member) => kazoo("member-"),
            (Layout::Kazoo, ..) => kazoo("__lock__"),
        }
    }

    /// Names a reader that shares the place of the writer with this number, as Curator names one.
    pub(crate) fn beside(self, ticket: Ticket, sequence: i32) -> NodeName {
        let reader = self.at_tail(ticket, Mode::Read, Part::Line).text;
        NodeName { text: reader + &format_sequence(sequence), is_sequential: false }
    }
}

/// Finds our name that has this ticket, in any mode.
pub(crate) fn find_ticket(names: &[String], ticket: Ticket) -> Option<&String> {
    let prefixes = [curator_prefix(ticket), ticket.to_string()];
    names.iter().find(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
}

/// What Curator's protection mode puts before a name: `_c_<uuid>-`.
fn curator_prefix(ticket: Ticket) -> String {
    let digits = ticket.to_string();
    let mut prefix = "_c_".to_owned();
    for group in [0..8, 8..12, 12..16, 16..20, 20..32] {
        write!(prefix, "{}-", &digits[group]).expect("a string takes everything");
    }
    prefix
}

/// What a contender of any known client has just before its sequence number, and what it then asks for.
///
/// Curator's mutex and go-zookeeper write `lock-`, Curator's read/write lock `__WRIT__` and `__READ__`, its
/// `LeaderLatch` `latch-`, its semaphore `lease-`; kazoo writes `__lock__`, for its lock and its write lock alike, and
/// `__rlock__`. No other client writes `member-`. Longer marks come first where one ends in another.
const MARKS: [(&str, Mode); 8] = [
    ("__WRIT__", Mode::Write),
    ("__READ__", Mode::Read),
    ("__rlock__", Mode::Read),
    ("__lock__", Mode::Exclusive),
    ("latch-", Mode::Candidate),
    ("lock-", Mode::Mutex),
    ("lease-", Mode::Permit),
    ("member-", Mode::Member),
];

/// How long a sequence number is, the sign of the greatest negative ones included.
const SEQUENCE_LENGTHS: [usize; 2] = [SEQUENCE_DIGITS + 1, SEQUENCE_DIGITS];

/// Where the first dash stands in a ticket as Curator writes it, which others write without dashes.
const CURATOR_FIRST_DASH: usize = 8;

const TICKET_DIGITS: usize = 32;

/// What to do about a child that may be a contender of a client we do not know.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ForeignPolicy {
    /// Refuse to use the queue.
    #[default]
    Refuse,
    /// Pass it over: the configuration says that it is not a contender.
    Ignore,
    /// Take it for an exclusive contender.
    Wait,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ChildName {
    Contender {
        ticket: Option<Ticket>,
        mode: Mode,
        sequence: i32,
    },
    /// It ends in a sequence number, so it may be an unknown client's contender.
    Foreign {
        sequence: i32,
    },
    /// Nothing that could be waited for.
    Junk,
}

impl ChildName {
    pub(crate) fn read(name: &str) -> Self {
        // The number is found by its length: who follows many locks reads too many names to search each for each mark.
        for (before, digits) in SEQUENCE_LENGTHS.into_iter().filter_map(|length| split_end(name, length)) {
            let marked = MARKS.into_iter().find_map(|(mark, mode)| Some((before.strip_suffix(mark)?, mode)));
            if let Some((before, mode)) = marked
                && let Some(sequence) = parse_sequence(digits)
            {
                return Self::Contender { ticket: ticket_before(before), mode, sequence };
            }
        }
        match trailing_sequence(name) {
            Some(sequence) => Self::Foreign { sequence },
            None => Self::Junk,
        }
    }
}

/// Returns the ticket in a contender's name, or in that of a permit of kazoo's, which is nothing but a ticket.
pub(crate) fn ticket_of(name: &str) -> Option<Ticket> {
    match ChildName::read(name) {
        ChildName::Contender { ticket, .. } => ticket,
        ChildName::Foreign { .. } | ChildName::Junk => bare_ticket(name),
    }
}

/// Reads a name that is nothing but a ticket, as kazoo names its permits.
pub(crate) fn bare_ticket(name: &str) -> Option<Ticket> {
    (name.len() == TICKET_DIGITS).then(|| ticket_before(name)).flatten()
}

/// Tells whether a contender's name is as Curator writes it. Its programs may have asked to be told of requests; those
/// of other clients cannot.
pub(crate) fn is_curators(name: &str) -> bool {
    name.strip_prefix("_c_").is_some_and(|rest| rest.find('-') == Some(CURATOR_FIRST_DASH))
}

/// Reads the ticket that stands before a mark: `_c_<uuid>-` as Curator writes it, `_c_<32 digits>-` as go-zookeeper
/// does, or the 32 digits only as kazoo does.
fn ticket_before(text: &str) -> Option<Ticket> {
    let digits = match text.strip_prefix("_c_") {
        Some(rest) => rest.strip_suffix('-')?,
        None => text,
    };
    let has_dashes = match digits.len() {
        TICKET_DIGITS => false,
        36 => [8, 13, 18, 23].iter().all(|&at| digits.as_bytes()[at] == b'-'),
        _ => return None,
    };
    let (mut bits, mut count) = (0, 0);
    for digit in digits.chars().filter(|&letter| !(has_dashes && letter == '-')) {
        bits = bits << 4 | u128::from(digit.to_digit(16)?);
        count += 1;
    }
    (count == TICKET_DIGITS).then(|| Ticket::from_bits(bits))
}

/// Reads a sequence number at the end of an unknown name.
///
/// A minus sign belongs to the number only if the service would have written it so; otherwise it ends the name before.
fn trailing_sequence(name: &str) -> Option<i32> {
    let tail = |length| split_end(name, length).map(|(_, tail)| tail);
    let is_negative = |tail: &&str| tail.starts_with('-');
    let negative = SEQUENCE_LENGTHS.into_iter().filter_map(tail).filter(is_negative).find_map(parse_sequence);
    // "x-0000000001" is number 1 after "x-": the service writes no "-0000000001".
    negative.or_else(|| tail(SEQUENCE_DIGITS).and_then(parse_sequence))
}

/// Splits off an end of this length, if there is one.
fn split_end(name: &str, length: usize) -> Option<(&str, &str)> {
    name.split_at_checked(name.len().checked_sub(length)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MODES: [Mode; 5] = [Mode::Mutex, Mode::Read, Mode::Write, Mode::Candidate, Mode::Member];

    const TICKET: Ticket = Ticket::from_bits(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

    #[test]
    fn contenders_of_every_known_client_are_read() {
        let contender = |ticket, mode, sequence| ChildName::Contender { ticket, mode, sequence };
        for (name, expected) in [
            ("_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000007", contender(Some(TICKET), Mode::Mutex, 7)),
            ("_c_0123456789abcdef0123456789abcdef-lock-0000000007", contender(Some(TICKET), Mode::Mutex, 7)),
            ("_c_01234567-89ab-cdef-0123-456789abcdef-__WRIT__0000000001", contender(Some(TICKET), Mode::Write, 1)),
            ("_c_01234567-89ab-cdef-0123-456789abcdef-__READ__0000000001", contender(Some(TICKET), Mode::Read, 1)),
            ("0123456789abcdef0123456789abcdef__lock__0000000002", contender(Some(TICKET), Mode::Exclusive, 2)),
            ("0123456789abcdef0123456789abcdef__rlock__0000000002", contender(Some(TICKET), Mode::Read, 2)),
            ("_c_01234567-89ab-cdef-0123-456789abcdef-latch-0000000001", contender(Some(TICKET), Mode::Candidate, 1)),
            ("_c_01234567-89ab-cdef-0123-456789abcdef-lease-0000000001", contender(Some(TICKET), Mode::Permit, 1)),
            ("_c_01234567-89ab-cdef-0123-456789abcdef-member-0000000001", contender(Some(TICKET), Mode::Member, 1)),
            ("0123456789abcdef0123456789abcdefmember-0000000001", contender(Some(TICKET), Mode::Member, 1)),
            ("mylock-0000000003", contender(None, Mode::Mutex, 3)),
            ("lock--000000005", contender(None, Mode::Mutex, -5)),
            ("lock--2147483648", contender(None, Mode::Mutex, i32::MIN)),
            ("_c_not-a-uuid-lock-2147483647", contender(None, Mode::Mutex, i32::MAX)),
        ] {
            assert_eq!(ChildName::read(name), expected, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_with_a_sequence_number_is_foreign_and_anything_else_junk() {
        for (name, sequence) in [
            ("x-72057594037927937-0000000004", 4),
            ("_c_01234567-89ab-cdef-0123-456789abcdef-hatch-0000000000", 0),
            ("0000000009", 9),
            ("n-2147483648", i32::MIN),
            ("n-999999999", -999_999_999),
            ("lock-x0000000001", 1),
        ] {
            assert_eq!(ChildName::read(name), ChildName::Foreign { sequence }, "{name}");
        }
        for name in
            ["", "lock-", "foolock-1", "!x", "-1", "abc", "lock-00000000012x", "0123456789abcdef0123456789abcdef"]
        {
            assert_eq!(ChildName::read(name), ChildName::Junk, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bits: u128, sequence: i32, kazoo: bool, at in 0_usize..MODES.len()) {
            let layout = if kazoo { Layout::Kazoo } else { Layout::Curator };
            let naming = NodeNaming { layout, election: ElectionLayout::Latch };
            let ticket = Ticket::from_bits(bits);
            let asked = MODES[at];
            let shown = match (asked, layout) {
                (Mode::Mutex | Mode::Write, Layout::Kazoo) => Mode::Exclusive,
                _ => asked,
            };
            let name = naming.at_tail(ticket, asked, Part::Line).text + &format_sequence(sequence);
            let names = [name];
            prop_assert_eq!(find_ticket(&names, ticket), Some(&names[0]));
            prop_assert_eq!(find_ticket(&names, Ticket::from_bits(!bits)), None);
            let expected = ChildName::Contender { ticket: Some(ticket), mode: shown, sequence };
            prop_assert_eq!(ChildName::read(&names[0]), expected);
        }

        #[test]
        fn no_name_makes_the_reader_panic(name in "\\PC{0,60}") {
            let _ = ChildName::read(&name);
            let _ = ticket_of(&format!("_c_{name}-lock-0000000001"));
        }
    }

    const UUID: &str = "_c_01234567-89ab-cdef-0123-456789abcdef-";

    const HEX: &str = "0123456789abcdef0123456789abcdef";

    fn naming(layout: Layout) -> NodeNaming {
        NodeNaming { layout, election: ElectionLayout::of("", layout) }
    }

    #[test]
    fn names_are_those_of_curator_byte_for_byte() {
        for (mode, part, mark) in [
            (Mode::Mutex, Part::Line, "lock-"),
            (Mode::Write, Part::Line, "__WRIT__"),
            (Mode::Read, Part::Line, "__READ__"),
            (Mode::Candidate, Part::Line, "latch-"),
            (Mode::Member, Part::Line, "member-"),
            (Mode::Acquire, Part::Waiters, "lock-"),
            (Mode::Permit, Part::Permits, "lease-"),
        ] {
            let name = naming(Layout::Curator).at_tail(TICKET, mode, part);
            assert_eq!(name, NodeName { text: format!("{UUID}{mark}"), is_sequential: true }, "{mode}");
            assert!(find_ticket(&[name.text], TICKET).is_some());
        }
    }

    #[test]
    fn names_are_those_of_kazoo_byte_for_byte() {
        for (mode, part, mark, is_sequential) in [
            (Mode::Mutex, Part::Line, "__lock__", true),
            (Mode::Write, Part::Line, "__lock__", true),
            (Mode::Read, Part::Line, "__rlock__", true),
            (Mode::Candidate, Part::Line, "__lock__", true),
            (Mode::Member, Part::Line, "member-", true),
            (Mode::Acquire, Part::Waiters, "__lock__", true),
            (Mode::Permit, Part::Permits, "", false),
        ] {
            let name = naming(Layout::Kazoo).at_tail(TICKET, mode, part);
            assert_eq!(name, NodeName { text: format!("{HEX}{mark}"), is_sequential }, "{mode}");
            assert!(find_ticket(&[name.text], TICKET).is_some());
        }
    }

    #[test]
    fn candidates_are_named_as_the_election_is_laid_out_in_any_layout_of_the_locks() {
        for layout in [Layout::Curator, Layout::Kazoo] {
            for (setting, name) in [
                ("latch", format!("{UUID}latch-")),
                ("selector", format!("{UUID}lock-")),
                ("kazoo", format!("{HEX}__lock__")),
            ] {
                let election = ElectionLayout::of(setting, layout);
                let naming = NodeNaming { layout, election };
                assert_eq!(naming.at_tail(TICKET, Mode::Candidate, Part::Line).text, name);
                assert_ne!(naming.at_tail(TICKET, Mode::Read, Part::Line).text, name);
            }
        }
    }

    #[test]
    fn a_reader_beside_a_writer_has_its_number_as_curator_writes_it() {
        let name = naming(Layout::Curator).beside(TICKET, 7);
        assert_eq!(name, NodeName { text: format!("{UUID}__READ__0000000007"), is_sequential: false });
        assert_eq!(naming(Layout::Kazoo).beside(TICKET, 7).text, format!("{HEX}__rlock__0000000007"));
    }
}
