//! Reads one name: which client made it, and what it asks for.

use lockkeeper_core::{Mode, Ticket};
use lockkeeper_zk_proto::path::parse_sequence;

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

/// The digits of a sequence number that no minus sign precedes.
const SEQUENCE_DIGITS: usize = 10;

/// Where the first dash stands in a ticket as Curator writes it, which others write without dashes.
const CURATOR_FIRST_DASH: usize = 8;

/// The hexadecimal digits of a ticket.
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

/// What a child of a queue's node is, by its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Named {
    /// A contender of a known client.
    Contender { ticket: Option<Ticket>, mode: Mode, sequence: i32 },
    /// It ends in a sequence number, so it may be an unknown client's contender.
    Foreign { sequence: i32 },
    /// Nothing that could be waited for.
    Junk,
}

impl Named {
    /// Reads a child's name.
    pub(crate) fn read(name: &str) -> Self {
        for (mark, mode) in MARKS {
            if let Some((before, digits)) = name.rsplit_once(mark)
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
    match Named::read(name) {
        Named::Contender { ticket, .. } => ticket,
        Named::Foreign { .. } | Named::Junk => bare_ticket(name),
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
    let plain = match digits.len() {
        TICKET_DIGITS => digits.to_owned(),
        36 if [8, 13, 18, 23].iter().all(|&at| digits.as_bytes()[at] == b'-') => digits.replace('-', ""),
        _ => return None,
    };
    let is_plain = plain.len() == TICKET_DIGITS && plain.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_plain.then(|| u128::from_str_radix(&plain, 16).ok().map(Ticket::from_bits)).flatten()
}

/// Reads a sequence number at the end of an unknown name.
///
/// A minus sign belongs to the number only if the service would have written it so; otherwise it ends the name before.
fn trailing_sequence(name: &str) -> Option<i32> {
    let negative = [SEQUENCE_DIGITS + 1, SEQUENCE_DIGITS].into_iter().find_map(|length| {
        let tail = name.get(name.len().checked_sub(length)?..)?;
        tail.starts_with('-').then(|| parse_sequence(tail)).flatten()
    });
    let tail = || name.get(name.len().checked_sub(SEQUENCE_DIGITS)?..);
    // "x-0000000001" is number 1 after "x-": the service writes no "-0000000001".
    negative.or_else(|| tail().and_then(parse_sequence))
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::Part;
    use lockkeeper_zk_proto::path::format_sequence;
    use proptest::prelude::*;

    use super::*;
    use crate::layout::naming::{ElectionLayout, Layout, Naming, find_ticket};

    const MODES: [Mode; 5] = [Mode::Mutex, Mode::Read, Mode::Write, Mode::Candidate, Mode::Member];

    const TICKET: Ticket = Ticket::from_bits(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

    #[test]
    fn contenders_of_every_known_client_are_read() {
        let contender = |ticket, mode, sequence| Named::Contender { ticket, mode, sequence };
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
            assert_eq!(Named::read(name), expected, "{name}");
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
            assert_eq!(Named::read(name), Named::Foreign { sequence }, "{name}");
        }
        for name in
            ["", "lock-", "foolock-1", "!x", "-1", "abc", "lock-00000000012x", "0123456789abcdef0123456789abcdef"]
        {
            assert_eq!(Named::read(name), Named::Junk, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bits: u128, sequence: i32, kazoo: bool, at in 0_usize..MODES.len()) {
            let layout = if kazoo { Layout::Kazoo } else { Layout::Curator };
            let naming = Naming { layout, election: ElectionLayout::Latch };
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
            prop_assert_eq!(Named::read(&names[0]), Named::Contender { ticket: Some(ticket), mode: shown, sequence });
        }

        #[test]
        fn no_name_makes_the_reader_panic(name in "\\PC{0,60}") {
            let _ = Named::read(&name);
            let _ = ticket_of(&format!("_c_{name}-lock-0000000001"));
        }
    }
}
