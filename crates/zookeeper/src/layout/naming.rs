//! The names of our own contenders: as one client or another names them, so that its locks and ours are the same locks.

use std::fmt::Write as _;

use lockkeeper_core::{Mode, Part, Ticket};
use lockkeeper_zk_proto::path::format_sequence;

/// How our contenders are named, and where the parts of a semaphore lie.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Layout {
    /// Apache Curator's recipes, and go-zookeeper's: `_c_<uuid>-lock-<sequence>`. A semaphore has two nodes below its
    /// lock's node, `locks` and `leases`.
    #[default]
    Curator,
    /// kazoo's: `<32 hexadecimal digits>__lock__<sequence>`. A semaphore's permits lie below its lock's node. Those
    /// that wait for permits lie below another node beside it, whose name ends in `-__lock__`.
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

/// How our contenders are named.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Naming {
    pub(crate) layout: Layout,
    pub(crate) election: ElectionLayout,
}

/// The name of a node to be made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct NodeName {
    pub(crate) text: String,
    /// Whether the service appends a sequence number.
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

    /// Whether these queues of one lock are children of the same node.
    pub(crate) const fn is_one_node(self, part: Part, other: Part) -> bool {
        matches!(
            (self, part, other),
            (_, Part::Line, Part::Line)
                | (_, Part::Waiters, Part::Waiters)
                | (_, Part::Permits, Part::Permits)
                | (Self::Kazoo, Part::Line, Part::Permits)
                | (Self::Kazoo, Part::Permits, Part::Line)
        )
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

impl Naming {
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

#[cfg(test)]
mod tests {
    use super::*;

    const TICKET: Ticket = Ticket::from_bits(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

    const UUID: &str = "_c_01234567-89ab-cdef-0123-456789abcdef-";

    const HEX: &str = "0123456789abcdef0123456789abcdef";

    fn naming(layout: Layout) -> Naming {
        Naming { layout, election: ElectionLayout::of("", layout) }
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
                let naming = Naming { layout, election };
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
