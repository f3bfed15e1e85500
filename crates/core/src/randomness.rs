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

/// Random bytes, each of which is given out once.
#[derive(Clone, Debug)]
struct RandomPiece {
    bytes: [u8; PIECE_BYTES],
    used: usize,
    /// The process that asked for them.
    asked_by: u32,
}

impl RandomPiece {
    const fn used_up() -> Self {
        Self { bytes: [0; PIECE_BYTES], used: PIECE_BYTES, asked_by: 0 }
    }

    fn next(&mut self, process: u32) -> Result<u128, getrandom::Error> {
        // A fork has a copy of the bytes of its parent, which goes on to use them.
        if self.used == PIECE_BYTES || self.asked_by != process {
            self.used = PIECE_BYTES;
            getrandom::fill(&mut self.bytes)?;
            (self.used, self.asked_by) = (0, process);
        }
        let mut answer = [0; ANSWER_BYTES];
        let end = self.used + ANSWER_BYTES;
        answer.swap_with_slice(&mut self.bytes[self.used..end]);
        self.used = end;
        Ok(u128::from_ne_bytes(answer))
    }
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
}
