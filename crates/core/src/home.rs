//! The process that something was made in. A fork has copies of all that its parent has, and must not act by them: they
//! are its parent's session, contenders and connections.

use std::cell::Cell;
use std::time::Duration;

use crate::clock::BootInstant;
use crate::error::{Error, ErrorKind, Operation, Result};

/// How old the kernel's answer may be by which a turn within the process begins or ends: the question costs a tenth of
/// such a turn. No fork is made in so short a time, so its first answer is never its parent's.
const ANSWER_AGE_MAX: Duration = Duration::from_micros(10);

thread_local! {
    /// When this thread asked last, and was told.
    static ANSWER: Cell<Option<(BootInstant, u32)>> = const { Cell::new(None) };
}

/// The process that something was made in, by its number.
///
/// The kernel is asked each time, since nothing tells a process that it is a fork. A fork in another namespace of
/// processes that has the number of its parent there is taken for its parent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Home(Option<u32>);

impl Home {
    /// Of what no other process takes part in: a fork has all of it too.
    pub const ANYWHERE: Self = Self(None);

    /// Of what is made now.
    #[must_use]
    pub fn here() -> Self {
        Self(Some(std::process::id()))
    }

    /// Whether this is a fork of the process that it was made in.
    #[must_use]
    pub fn is_left(self) -> bool {
        self.0.is_some_and(|process| process != std::process::id())
    }

    /// The same, by an answer of the kernel that is some microseconds old at most; `now` is the present moment.
    #[must_use]
    pub fn is_left_at(self, now: BootInstant) -> bool {
        self.0.is_some_and(|process| process != process_at(now))
    }

    /// Refuses a call in a fork.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`], permanent.
    pub fn check(self, operation: Operation) -> Result<()> {
        if self.is_left() { Err(self.refusal(operation)) } else { Ok(()) }
    }

    /// The same, by the rule of [`is_left_at`](Self::is_left_at).
    ///
    /// # Errors
    ///
    /// As for [`check`](Self::check).
    pub fn check_at(self, now: BootInstant, operation: Operation) -> Result<()> {
        if self.is_left_at(now) { Err(self.refusal(operation)) } else { Ok(()) }
    }

    #[cold]
    fn refusal(self, operation: Operation) -> Error {
        let parent = self.0.map(|process| format!(", {process}")).unwrap_or_default();
        let message = format!("this process is a fork of the one that has connected{parent}: a fork connects anew");
        Error::permanent(ErrorKind::Closed, operation, message)
    }
}

/// The number of this process, as this thread was told a moment before now.
fn process_at(now: BootInstant) -> u32 {
    ANSWER.with(|answer| match answer.get() {
        Some((asked_at, process)) if asked_at <= now && now.saturating_duration_since(asked_at) < ANSWER_AGE_MAX => {
            process
        }
        _ => {
            let process = std::process::id();
            answer.set(Some((now, process)));
            process
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(micros: u64) -> BootInstant {
        BootInstant::from_nanos(micros * 1_000)
    }

    #[test]
    fn a_fork_is_told_to_connect_anew_and_no_other_process_is() {
        assert!(!Home::here().is_left() && Home::here().check(Operation::Join).is_ok());
        assert!(!Home::ANYWHERE.is_left() && Home::ANYWHERE.check(Operation::Join).is_ok());
        // The number of no process.
        let other = Home(Some(0));
        assert!(other.is_left() && other.is_left_at(now(1)));
        for error in [other.check(Operation::Join), other.check_at(now(1), Operation::Join)].map(Result::unwrap_err) {
            assert_eq!(error.kind(), ErrorKind::Closed);
            assert!(!error.is_transient() && error.to_string().contains("has connected, 0:"), "{error}");
        }
    }

    #[test]
    fn an_answer_counts_for_some_microseconds_and_no_longer() {
        let (parent, child) = (Home(Some(0)), Home::here());
        // As in a thread of a fork, whose parent has asked a moment before.
        let asked = |at| ANSWER.set(Some((now(at), 0)));
        asked(100);
        assert!(!parent.is_left_at(now(109)) && child.is_left_at(now(109)));
        assert!(parent.is_left_at(now(110)) && !child.is_left_at(now(111)));
        asked(100);
        assert!(parent.is_left_at(now(99)), "a clock that went back");
    }
}
