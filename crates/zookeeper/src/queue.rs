//! A whole queue: the children of its node put in order.

use lockkeeper_core::{Contender, ContenderId, Mode, Part, Ticket};

use crate::layout::{CURATOR_PERMITS, CURATOR_WAITERS, ChildName, ForeignPolicy, Layout, bare_ticket};

#[derive(Debug, Default)]
pub(crate) struct QueueReading {
    pub(crate) contenders: Vec<Contender>,
    /// One that may be an unknown client's contender, and must not be passed over.
    pub(crate) foreign: Option<String>,
    pub(crate) junk: Vec<String>,
    /// What a child asks for that stands on the other side of the lock.
    pub(crate) elsewhere: Option<Mode>,
    /// The nodes of a semaphore below a lock's own node, in which contenders may stand.
    pub(crate) parts: Vec<Part>,
}

/// A contender with what orders it: its number without its sign, and whether it shares the place of the one with this
/// number.
type Ordered = (u32, bool, Contender);

/// Puts children in order.
///
/// The order is that of their creation. A sequence number is a 32-bit counter: taken without its sign it grows until it
/// has counted 2^32 children. Two are equal only where Curator gives a reader the number of the write lock it is held
/// within; the writer came first.
pub(crate) fn read_queue<Name: AsRef<str>>(
    children: &[Name],
    part: Part,
    layout: Layout,
    foreign: ForeignPolicy,
) -> QueueReading {
    let mut reading = QueueReading::default();
    let mut ordered: Vec<Ordered> = Vec::with_capacity(children.len());
    for name in children.iter().map(AsRef::as_ref) {
        match part {
            Part::Permits => ordered.push(permit(name, layout, &mut reading)),
            Part::Line | Part::Waiters => ordered.extend(contender(name, part, layout, foreign, &mut reading)),
        }
    }
    ordered.sort_unstable_by(|(sequence, reads, contender), (other_sequence, other_reads, other)| {
        (sequence, reads, &contender.id).cmp(&(other_sequence, other_reads, &other.id))
    });
    reading.contenders = ordered.into_iter().map(|(_, _, contender)| contender).collect();
    reading
}

/// Returns what the first contender in a lock's own queue asks for. Used where the lock is used as a semaphore.
pub(crate) fn mode_in_line(children: &[String], layout: Layout, foreign: ForeignPolicy) -> Option<Mode> {
    let foreign = match foreign {
        // No order is needed here.
        ForeignPolicy::Refuse => ForeignPolicy::Ignore,
        other => other,
    };
    read_queue(children, Part::Line, layout, foreign).contenders.first().map(|first| first.mode)
}

fn contender(
    name: &str,
    part: Part,
    layout: Layout,
    foreign: ForeignPolicy,
    reading: &mut QueueReading,
) -> Option<Ordered> {
    // Before all else, since its last digits may look like a number.
    if part == Part::Line && layout == Layout::Kazoo && bare_ticket(name).is_some() {
        reading.elsewhere = Some(Mode::Permit);
        return None;
    }
    let (ticket, mode, sequence) = match (ChildName::read(name), foreign) {
        (ChildName::Contender { ticket, mode, sequence }, _) => (ticket, mode, sequence),
        (ChildName::Foreign { sequence }, ForeignPolicy::Wait) => (None, Mode::Exclusive, sequence),
        (ChildName::Foreign { .. }, ForeignPolicy::Refuse) => {
            reading.foreign.get_or_insert_with(|| name.to_owned());
            return None;
        }
        (ChildName::Junk, _) if part == Part::Line && name == CURATOR_PERMITS => {
            reading.parts.push(Part::Permits);
            return None;
        }
        (ChildName::Junk, _) if part == Part::Line && name == CURATOR_WAITERS => {
            reading.parts.push(Part::Waiters);
            return None;
        }
        (ChildName::Foreign { .. }, ForeignPolicy::Ignore) | (ChildName::Junk, _) => {
            reading.junk.push(name.to_owned());
            return None;
        }
    };
    let shown = if part == Part::Waiters { Mode::Acquire } else { mode };
    Some((sequence.cast_unsigned(), mode == Mode::Read, Contender { id: ContenderId::new(name), ticket, mode: shown }))
}

/// Every child counts as a permit, with any name, as Curator and kazoo count them.
fn permit(name: &str, layout: Layout, reading: &mut QueueReading) -> Ordered {
    let (ticket, sequence) = match ChildName::read(name) {
        ChildName::Contender { ticket, mode, sequence } => {
            // kazoo's permits lie where the contenders of its locks do.
            if layout == Layout::Kazoo {
                reading.elsewhere = reading.elsewhere.or(Some(mode));
            }
            (ticket, sequence.cast_unsigned())
        }
        ChildName::Foreign { sequence } if bare_ticket(name).is_none() => (None, sequence.cast_unsigned()),
        ChildName::Foreign { .. } | ChildName::Junk => (bare_ticket(name), u32::MAX),
    };
    (sequence, false, Contender { id: ContenderId::new(name), ticket, mode: Mode::Permit })
}

/// Returns the ticket of each permit among the children of kazoo's node. It passes over the contenders of locks, for
/// callers that show both apart.
pub(crate) fn bare_permits<Name: AsRef<str>>(children: &[Name]) -> Vec<Contender> {
    let permit = |name: &Name| {
        let ticket: Option<Ticket> = Some(bare_ticket(name.as_ref())?);
        Some(Contender { id: ContenderId::new(name.as_ref()), ticket, mode: Mode::Permit })
    };
    let mut permits: Vec<_> = children.iter().filter_map(permit).collect();
    permits.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    permits
}

#[cfg(test)]
mod tests {
    use lockkeeper_zk_proto::path::format_sequence;
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "_c_01234567-89ab-cdef-0123-456789abcdef-";

    const HEX: &str = "0123456789abcdef0123456789abcdef";

    /// A ticket whose last digits look like a sequence number.
    const HEX_AND_NUMBER: &str = "0123456789abcdef0123451057510164";

    fn names(reading: &QueueReading) -> Vec<&str> {
        reading.contenders.iter().map(|contender| contender.id.as_str()).collect()
    }

    fn modes(reading: &QueueReading) -> Vec<Mode> {
        reading.contenders.iter().map(|contender| contender.mode).collect()
    }

    fn children(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn line(names: &[&str]) -> QueueReading {
        read_queue(&children(names), Part::Line, Layout::Curator, ForeignPolicy::Refuse)
    }

    #[test]
    fn contenders_of_all_clients_stand_in_the_order_of_their_numbers() {
        let reading = line(&["zlock-0000000010", "f__lock__0000000009", "alock-0000000011", "junk"]);
        assert_eq!(names(&reading), ["f__lock__0000000009", "zlock-0000000010", "alock-0000000011"]);
        assert_eq!(reading.junk, ["junk"]);
        assert_eq!(reading.foreign, None);
    }

    #[test]
    fn negative_numbers_follow_the_greatest_positive_ones() {
        let reading = line(&["lock--2147483647", "lock-2147483647", "lock--2147483648", "lock-2147483646"]);
        assert_eq!(names(&reading), ["lock-2147483646", "lock-2147483647", "lock--2147483648", "lock--2147483647"]);
    }

    #[test]
    fn a_reader_with_the_writers_own_number_stands_behind_it() {
        let reading = line(&["a-__READ__0000000003", "b-__WRIT__0000000003"]);
        assert_eq!(names(&reading), ["b-__WRIT__0000000003", "a-__READ__0000000003"]);
        let reading = line(&["a__rlock__0000000003", "b__lock__0000000003"]);
        assert_eq!(names(&reading), ["b__lock__0000000003", "a__rlock__0000000003"]);
    }

    #[test]
    fn a_foreign_name_is_refused_passed_over_or_waited_for_as_configured() {
        let read =
            |policy| read_queue(&children(&["x-0000000001", "lock-0000000002"]), Part::Line, Layout::Curator, policy);
        let refused = read(ForeignPolicy::Refuse);
        assert_eq!(refused.foreign.as_deref(), Some("x-0000000001"));
        let ignored = read(ForeignPolicy::Ignore);
        assert_eq!((names(&ignored), &ignored.foreign), (vec!["lock-0000000002"], &None));
        let waited_for = read(ForeignPolicy::Wait);
        assert_eq!(names(&waited_for), ["x-0000000001", "lock-0000000002"]);
        assert_eq!(waited_for.contenders[0].mode, Mode::Exclusive);
    }

    #[test]
    fn the_parts_of_a_semaphore_are_no_junk_in_the_lines_they_lie_in() {
        let reading = line(&["locks", "leases", "lock-0000000002"]);
        assert_eq!(reading.parts, [Part::Waiters, Part::Permits]);
        assert!(reading.junk.is_empty() && reading.elsewhere.is_none());
        let waiters = read_queue(&children(&["locks"]), Part::Waiters, Layout::Curator, ForeignPolicy::Refuse);
        assert_eq!(waiters.junk, ["locks"], "only a line has parts");
    }

    #[test]
    fn any_contender_among_the_waiters_waits_for_permits_whichever_name_it_has() {
        let waiting = children(&[&format!("{UUID}lock-0000000002"), &format!("{HEX}__lock__0000000001")]);
        let reading = read_queue(&waiting, Part::Waiters, Layout::Curator, ForeignPolicy::Refuse);
        assert_eq!(modes(&reading), [Mode::Acquire, Mode::Acquire]);
        assert!(reading.contenders[0].id.as_str().starts_with(HEX));
    }

    #[test]
    fn every_child_of_the_permits_counts_whichever_name_it_has() {
        let permits = children(&[&format!("{UUID}lease-0000000002"), "junk", "x-0000000001", HEX]);
        let reading = read_queue(&permits, Part::Permits, Layout::Curator, ForeignPolicy::Refuse);
        assert_eq!(modes(&reading), [Mode::Permit; 4]);
        assert_eq!(reading.contenders.iter().filter(|permit| permit.ticket.is_some()).count(), 2);
        assert!(reading.junk.is_empty() && reading.foreign.is_none() && reading.elsewhere.is_none());
    }

    #[test]
    fn in_kazoos_layout_permits_and_locks_meet_below_one_node_and_are_told_apart() {
        let listed = || children(&[HEX, &format!("{HEX}__lock__0000000001")]);
        let in_line = read_queue(&listed(), Part::Line, Layout::Kazoo, ForeignPolicy::Refuse);
        assert_eq!((modes(&in_line), in_line.elsewhere), (vec![Mode::Exclusive], Some(Mode::Permit)));
        let permits = read_queue(&listed(), Part::Permits, Layout::Kazoo, ForeignPolicy::Refuse);
        assert_eq!((permits.contenders.len(), permits.elsewhere), (2, Some(Mode::Exclusive)));
        assert_eq!(bare_permits(&listed()).len(), 1);
        assert_eq!(mode_in_line(&listed(), Layout::Kazoo, ForeignPolicy::Refuse), Some(Mode::Exclusive));
        let curator = read_queue(&children(&[HEX]), Part::Line, Layout::Curator, ForeignPolicy::Refuse);
        assert_eq!((curator.junk.len(), curator.elsewhere), (1, None), "Curator writes no such name");
    }

    #[test]
    fn a_permit_of_kazoos_that_ends_like_a_number_is_a_permit_all_the_same() {
        let listed = children(&[HEX_AND_NUMBER, "x-0000000001"]);
        for foreign in [ForeignPolicy::Refuse, ForeignPolicy::Ignore, ForeignPolicy::Wait] {
            let line = read_queue(&listed[..1], Part::Line, Layout::Kazoo, foreign);
            assert_eq!((line.contenders.len(), line.foreign, line.elsewhere), (0, None, Some(Mode::Permit)));
            assert_eq!(mode_in_line(&listed[..1], Layout::Kazoo, foreign), None);
        }
        let permits = read_queue(&listed, Part::Permits, Layout::Kazoo, ForeignPolicy::Refuse);
        assert_eq!(names(&permits), ["x-0000000001", HEX_AND_NUMBER], "it has no number to stand by");
        assert_eq!(permits.contenders[1].ticket, bare_ticket(HEX_AND_NUMBER));
        assert!(permits.contenders[1].ticket.is_some());
        let curator = read_queue(&listed[..1], Part::Line, Layout::Curator, ForeignPolicy::Refuse);
        assert!(curator.foreign.is_some(), "there it may be the contender of a client that is not known");
    }

    proptest! {
        /// With any state of the counter and any order of the server's list, contenders stand in the order of their
        /// making.
        #[test]
        fn contenders_stand_as_they_were_made(first in 0_u32..u32::MAX - 100, length in 1_u32..40, seed: u64) {
            let made: Vec<_> = (first..first + length)
                .map(|number| format!("lock-{}", format_sequence(number.cast_signed())))
                .collect();
            let mut listed = made.clone();
            listed.sort_by_key(|name| name.bytes().fold(seed, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte)));
            let reading = read_queue(&listed, Part::Line, Layout::Curator, ForeignPolicy::Refuse);
            prop_assert_eq!(names(&reading), made);
        }
    }
}
