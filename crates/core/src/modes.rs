//! Sets of modes, by whole kinds of lock: what a service carries, and what a lock needs.

use std::fmt;

use crate::contender::Mode;

/// The modes of the contenders of some kinds of lock.
///
/// It is made of whole kinds, since a service that carries the permits of a semaphore and not its waiters carries no
/// semaphore. [`Mode::Exclusive`] is in no set: it is only seen, never asked for.
///
/// ```
/// use lockkeeper::{Mode, Modes};
///
/// const OURS: Modes = Modes::MUTEX.with(Modes::ELECTION);
/// assert!(OURS.has(Mode::Candidate) && !OURS.has(Mode::Permit));
/// assert!(Modes::ALL.has_all(OURS) && !OURS.has_all(Modes::READ_WRITE));
/// assert_eq!(OURS.to_string(), "mutexes and elections");
/// ```
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Modes(u8);

impl Modes {
    /// No kind of lock.
    pub const NONE: Self = Self(0);
    /// [`Mode::Mutex`].
    pub const MUTEX: Self = Self::of(&[Mode::Mutex]);
    /// [`Mode::Read`] and [`Mode::Write`].
    pub const READ_WRITE: Self = Self::of(&[Mode::Read, Mode::Write]);
    /// [`Mode::Acquire`] and [`Mode::Permit`].
    pub const SEMAPHORE: Self = Self::of(&[Mode::Acquire, Mode::Permit]);
    /// [`Mode::Candidate`].
    pub const ELECTION: Self = Self::of(&[Mode::Candidate]);
    /// [`Mode::Member`], of double barriers. A simple barrier is a value and has no contenders.
    pub const BARRIER: Self = Self::of(&[Mode::Member]);
    /// Every kind of lock.
    pub const ALL: Self =
        Self::MUTEX.with(Self::READ_WRITE).with(Self::SEMAPHORE).with(Self::ELECTION).with(Self::BARRIER);

    /// The kinds of lock, as they are named in sentences, and by one word.
    const KINDS: [(Self, &'static str, &'static str); 5] = [
        (Self::MUTEX, "mutexes", "mutex"),
        (Self::READ_WRITE, "read/write locks", "rwlock"),
        (Self::SEMAPHORE, "semaphores", "semaphore"),
        (Self::ELECTION, "elections", "election"),
        (Self::BARRIER, "double barriers", "barrier"),
    ];

    const fn of(modes: &[Mode]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < modes.len() {
            bits |= Self::bit(modes[at]);
            at += 1;
        }
        Self(bits)
    }

    const fn bit(mode: Mode) -> u8 {
        1 << mode as u8
    }

    /// Adds these kinds of lock.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Tells whether contenders of this mode are of these kinds.
    pub const fn has(self, mode: Mode) -> bool {
        self.0 & Self::bit(mode) != 0
    }

    /// Tells whether all of those kinds are among these.
    pub const fn has_all(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Names these kinds of lock, each by one word, as the command does: `mutex`, `rwlock`, `semaphore`, `election`,
    /// `barrier`.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        Self::KINDS.into_iter().filter(move |(kind, ..)| self.has_all(*kind)).map(|(.., word)| word)
    }
}

/// The kinds of lock: "mutexes and elections".
impl fmt::Display for Modes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> =
            Self::KINDS.iter().filter(|(kind, ..)| self.has_all(*kind)).map(|(_, name, _)| *name).collect();
        match kinds.split_last() {
            None => formatter.write_str("no locks"),
            Some((last, [])) => formatter.write_str(last),
            Some((last, others)) => write!(formatter, "{} and {last}", others.join(", ")),
        }
    }
}

impl fmt::Debug for Modes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Modes({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_the_same_in_whatever_order_its_kinds_were_added() {
        assert_eq!(Modes::MUTEX.with(Modes::ELECTION), Modes::ELECTION.with(Modes::MUTEX).with(Modes::MUTEX));
        assert_ne!(Modes::MUTEX, Modes::ELECTION);
    }

    #[test]
    fn all_kinds_together_have_every_mode_that_is_asked_for() {
        let asked = ["mutex", "read", "write", "acquire", "permit", "candidate", "member"];
        assert!(asked.iter().all(|name| Modes::ALL.has(Mode::from_name(name).unwrap())));
        assert!(!Modes::ALL.has(Mode::Exclusive));
    }

    #[test]
    fn the_kinds_are_named_in_a_sentence() {
        assert_eq!(Modes::NONE.to_string(), "no locks");
        assert_eq!(Modes::READ_WRITE.to_string(), "read/write locks");
        let all = "mutexes, read/write locks, semaphores, elections and double barriers";
        assert_eq!(Modes::ALL.to_string(), all);
    }
}
