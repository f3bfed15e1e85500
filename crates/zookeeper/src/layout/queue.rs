//! A whole queue: the children of its node put in order.

use lockkeeper_core::{Contender, ContenderId, Mode};

use crate::layout::name::{ForeignPolicy, Named};

/// What the children of a queue's node are.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The contenders, first one first.
    pub(crate) contenders: Vec<Contender>,
    /// One that may be somebody's contender, and must not be passed over.
    pub(crate) foreign: Option<String>,
    /// What was passed over.
    pub(crate) junk: Vec<String>,
}

/// Puts children in order.
///
/// The order is that of their creation. A sequence number is a 32-bit counter: taken without its sign it grows until it
/// has counted 2^32 children. Two are equal only where Curator gives a reader the number of the write lock it is held
/// within; the writer came first.
pub(crate) fn read_queue(children: Vec<String>, foreign: ForeignPolicy) -> Reading {
    let mut reading = Reading::default();
    let mut ordered: Vec<(u32, bool, Contender)> = Vec::with_capacity(children.len());
    for name in children {
        let (ticket, mode, sequence) = match (Named::read(&name), foreign) {
            (Named::Contender { ticket, mode, sequence }, _) => (ticket, mode, sequence),
            (Named::Foreign { sequence }, ForeignPolicy::Wait) => (None, Mode::Mutex, sequence),
            (Named::Foreign { .. }, ForeignPolicy::Refuse) => {
                reading.foreign.get_or_insert(name);
                continue;
            }
            (Named::Foreign { .. }, ForeignPolicy::Ignore) | (Named::Junk, _) => {
                reading.junk.push(name);
                continue;
            }
        };
        let contender = Contender { id: ContenderId::new(name), ticket, mode };
        ordered.push((sequence.cast_unsigned(), mode == Mode::Read, contender));
    }
    ordered.sort_unstable_by(|(sequence, reads, contender), (other_sequence, other_reads, other)| {
        (sequence, reads, &contender.id).cmp(&(other_sequence, other_reads, &other.id))
    });
    reading.contenders = ordered.into_iter().map(|(_, _, contender)| contender).collect();
    reading
}

#[cfg(test)]
mod tests {
    use lockkeeper_zk_proto::path::format_sequence;
    use proptest::prelude::*;

    use super::*;

    fn names(reading: &Reading) -> Vec<&str> {
        reading.contenders.iter().map(|contender| contender.id.as_str()).collect()
    }

    fn children(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn contenders_stand_in_the_order_of_their_numbers_whoever_made_them() {
        let listed = children(&["zlock-0000000010", "f__lock__0000000009", "alock-0000000011", "junk"]);
        let reading = read_queue(listed, ForeignPolicy::Refuse);
        assert_eq!(names(&reading), ["f__lock__0000000009", "zlock-0000000010", "alock-0000000011"]);
        assert_eq!(reading.junk, ["junk"]);
        assert_eq!(reading.foreign, None);
    }

    #[test]
    fn negative_numbers_follow_the_greatest_positive_ones() {
        let listed = children(&["lock--2147483647", "lock-2147483647", "lock--2147483648", "lock-2147483646"]);
        let reading = read_queue(listed, ForeignPolicy::Refuse);
        assert_eq!(names(&reading), ["lock-2147483646", "lock-2147483647", "lock--2147483648", "lock--2147483647"]);
    }

    #[test]
    fn a_reader_with_the_writers_own_number_stands_behind_it() {
        let reading = read_queue(children(&["a-__READ__0000000003", "b-__WRIT__0000000003"]), ForeignPolicy::Refuse);
        assert_eq!(names(&reading), ["b-__WRIT__0000000003", "a-__READ__0000000003"]);
    }

    #[test]
    fn a_foreign_name_is_refused_passed_over_or_waited_for_as_configured() {
        let listed = || children(&["x-0000000001", "lock-0000000002"]);
        let refused = read_queue(listed(), ForeignPolicy::Refuse);
        assert_eq!(refused.foreign.as_deref(), Some("x-0000000001"));
        let ignored = read_queue(listed(), ForeignPolicy::Ignore);
        assert_eq!((names(&ignored), &ignored.foreign), (vec!["lock-0000000002"], &None));
        let waited_for = read_queue(listed(), ForeignPolicy::Wait);
        assert_eq!(names(&waited_for), ["x-0000000001", "lock-0000000002"]);
        assert_eq!(waited_for.contenders[0].mode, Mode::Mutex);
    }

    proptest! {
        /// However the counter stands and in whichever order the server lists them, they stand as they were made.
        #[test]
        fn contenders_stand_as_they_were_made(first in 0_u32..u32::MAX - 100, length in 1_u32..40, seed: u64) {
            let made: Vec<_> = (first..first + length)
                .map(|number| format!("lock-{}", format_sequence(number.cast_signed())))
                .collect();
            let mut listed = made.clone();
            listed.sort_by_key(|name| name.bytes().fold(seed, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte)));
            let reading = read_queue(listed, ForeignPolicy::Refuse);
            prop_assert_eq!(names(&reading), made);
        }
    }
}
