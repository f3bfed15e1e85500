//! Randomness of the system, asked for in larger pieces: one question to the kernel costs as much as all else that a
//! ticket needs.

use std::cell::RefCell;

/// How much is asked for at a time, in bytes: the question is then a small part of what it costs, and a thread that
/// needs a single ticket has not asked for much.
const PIECE_BYTES: usize = 1024;

/// The bytes of one answer.
const ANSWER_BYTES: usize = 16;

thread_local! {
    static PIECE: RefCell<RandomPiece> = const { RefCell::new(RandomPiece::used_up()) };
}

/// Returns 128 bits that no caller was given before.
pub(crate) fn next_128_bits() -> Result<u128, getrandom::Error> {
    PIECE.with_borrow_mut(|piece| piece.next(std::process::id()))
}

/// Returns a number that spreads attempts in time or over servers, and protects nothing; 0 if there is no randomness.
pub fn spread() -> u64 {
    // The lower half is as random as the whole.
    next_128_bits().map_or(0, |bits| bits as u64)
}

/// Gives this thread the numbers of a seed in place of the system's, so that a simulation can be repeated. Never for a
/// program: other processes then have the same tickets.
pub fn seed_this_thread(seed: u64) {
    PIECE.with_borrow_mut(|piece| *piece = RandomPiece { sequence: Some(seed), ..RandomPiece::used_up() });
}

/// Random bytes, each of which is given out once.
#[derive(Clone, Debug)]
struct RandomPiece {
    bytes: [u8; PIECE_BYTES],
    used: usize,
    /// The process that asked for them.
    asked_by: u32,
    /// Where the sequence stands that is taken in place of the system's randomness.
    sequence: Option<u64>,
}

impl RandomPiece {
    const fn used_up() -> Self {
        Self { bytes: [0; PIECE_BYTES], used: PIECE_BYTES, asked_by: 0, sequence: None }
    }

    fn next(&mut self, process: u32) -> Result<u128, getrandom::Error> {
        // A fork has a copy of the bytes of its parent, which goes on to use them.
        if self.used == PIECE_BYTES || self.asked_by != process {
            self.used = PIECE_BYTES;
            match &mut self.sequence {
                Some(state) => self.bytes.chunks_mut(8).for_each(|bytes| {
                    bytes.copy_from_slice(&next_of_sequence(state).to_ne_bytes()[..bytes.len()]);
                }),
                None => getrandom::fill(&mut self.bytes)?,
            }
            (self.used, self.asked_by) = (0, process);
        }
        let mut answer = [0; ANSWER_BYTES];
        let end = self.used + ANSWER_BYTES;
        answer.swap_with_slice(&mut self.bytes[self.used..end]);
        self.used = end;
        Ok(u128::from_ne_bytes(answer))
    }
}

/// The next number of a sequence that its first state determines (splitmix64). Not for secrets.
pub const fn next_of_sequence(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PARENT: u32 = 1;
    const CHILD: u32 = 2;

    #[test]
    fn no_answer_comes_twice() {
        let mut piece = RandomPiece::used_up();
        let answers = 4 * PIECE_BYTES / ANSWER_BYTES;
        let distinct: BTreeSet<_> = (0..answers).map(|_| piece.next(PARENT).unwrap()).collect();
        assert_eq!(distinct.len(), answers);
    }

    #[test]
    fn a_fork_is_given_nothing_of_what_its_parent_has_asked_for() {
        let mut parent = RandomPiece::used_up();
        parent.next(PARENT).unwrap();
        let mut child = parent.clone();
        let answers = PIECE_BYTES / ANSWER_BYTES - 1;
        let of_parent: BTreeSet<_> = (0..answers).map(|_| parent.next(PARENT).unwrap()).collect();
        let of_child: BTreeSet<_> = (0..answers).map(|_| child.next(CHILD).unwrap()).collect();
        assert!(of_parent.is_disjoint(&of_child));
    }

    #[test]
    fn what_was_given_out_is_not_kept() {
        let mut piece = RandomPiece::used_up();
        let answer = piece.next(PARENT).unwrap().to_ne_bytes();
        assert!(!piece.bytes.windows(ANSWER_BYTES).any(|kept| kept == answer));
    }

    #[test]
    fn a_seed_gives_its_thread_the_same_numbers_again() {
        let numbers = |seed| {
            seed_this_thread(seed);
            [next_128_bits().unwrap(), next_128_bits().unwrap()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert_ne!(numbers(7)[0], numbers(7)[1]);
    }
}
