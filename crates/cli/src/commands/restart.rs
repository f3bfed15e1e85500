//! `run --restart`: when a command is run anew, and after which pause. Pure; `run` does it.

use std::time::Duration;

use rustix::process::Signal;

use crate::run::CommandOutcome;

/// The pause before a command is run anew, at first: a waiter for its place gets it meanwhile.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest pause, which is reached after six failures in a row.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long a command must have run for its end to count as a first one again.
const STEADY: Duration = Duration::from_secs(60);

/// The signals that are meant to end a command, from any sender.
const MEANT: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

#[derive(Debug)]
pub(super) struct RunEnd {
    pub(super) outcome: CommandOutcome,
    /// Why the lock was given up while the command ran, if it was.
    pub(super) given_up: Option<GivenUp>,
    pub(super) lasted: Duration,
    /// Whether we were told to end, and not only the command.
    pub(super) is_told_to_end: bool,
}

/// Why a lock was given up and the command ended for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum GivenUp {
    Asked,
    HeldTooLong,
}

/// Says why a command is run anew, or that it is not.
pub(super) fn why_again(ended: &RunEnd) -> Option<String> {
    if ended.is_told_to_end {
        return None;
    }
    if ended.given_up.is_some() {
        return Some("the lock was given up, and the command was ended".to_owned());
    }
    match &ended.outcome {
        CommandOutcome::LockLost(reason) => Some(format!("the lock was lost ({reason}), and the command was ended")),
        CommandOutcome::Exited(0) => None,
        CommandOutcome::Exited(code) => Some(format!("the command ended with {code}")),
        CommandOutcome::Signaled(signal) if MEANT.iter().any(|meant| meant.as_raw() == *signal) => None,
        CommandOutcome::Signaled(signal) => Some(format!("the command was ended by signal {signal}")),
        CommandOutcome::NotFound(_) | CommandOutcome::NotExecutable(_) => None,
    }
}

/// How long to pause, which grows with each early end.
#[derive(Debug)]
pub(super) struct Pauses {
    next: Duration,
}

impl Pauses {
    pub(super) const fn new() -> Self {
        Self { next: PAUSE_MIN }
    }

    /// Returns the pause after a command that ran for this long.
    pub(super) fn after(&mut self, lasted: Duration) -> Duration {
        if lasted >= STEADY {
            self.next = PAUSE_MIN;
        }
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(PAUSE_MAX);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(outcome: CommandOutcome) -> RunEnd {
        RunEnd { outcome, given_up: None, lasted: Duration::ZERO, is_told_to_end: false }
    }

    #[test]
    fn a_command_is_run_anew_unless_its_end_was_meant() {
        let lost = || CommandOutcome::LockLost("an operator broke the lock".to_owned());
        for (outcome, again) in [
            (CommandOutcome::Exited(0), None),
            (CommandOutcome::Exited(3), Some("the command ended with 3")),
            (CommandOutcome::Signaled(9), Some("the command was ended by signal 9")),
            (CommandOutcome::Signaled(15), None),
            (CommandOutcome::Signaled(1), None),
            (lost(), Some("the lock was lost (an operator broke the lock), and the command was ended")),
            (CommandOutcome::NotFound("cannot run x".to_owned()), None),
            (CommandOutcome::NotExecutable("cannot run x".to_owned()), None),
        ] {
            assert_eq!(why_again(&ended(outcome)).as_deref(), again);
        }
        let given_up = RunEnd { given_up: Some(GivenUp::Asked), ..ended(CommandOutcome::Signaled(15)) };
        assert!(why_again(&given_up).is_some(), "we sent that TERM ourselves");
        for outcome in [CommandOutcome::Exited(143), lost()] {
            assert_eq!(why_again(&RunEnd { is_told_to_end: true, ..ended(outcome) }), None);
        }
    }

    #[test]
    fn pauses_double_up_to_a_minute_and_start_over_after_a_steady_run() {
        let mut pauses = Pauses::new();
        let seconds: Vec<_> = (0..8).map(|_| pauses.after(Duration::from_secs(5)).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pauses.after(STEADY), PAUSE_MIN);
        assert_eq!(pauses.after(Duration::ZERO), Duration::from_secs(2));
    }
}
