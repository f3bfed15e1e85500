//! When a command is asked to end and when it is killed: a pure function of what is known and the time.
//!
//! The watchdog decides by it step by step. The runner only asks when the watchdog should have acted and did not.

use std::fmt;
use std::time::Duration;

use lockkeeper::SafeUntil;
use lockkeeper::clock::BootInstant;

/// How long before the end of the hold the last process is killed, in milliseconds.
///
/// A kill takes effect within a few milliseconds; the rest is for a machine that is busy.
const KILL_BEFORE_END_MS: u64 = 500;

/// How long before the end of the hold the runner no longer waits for the watchdog, in milliseconds: half of the above,
/// so that each has the same time.
const TAKE_OVER_BEFORE_END_MS: u64 = 250;

/// How much longer than the grace the runner waits for the watchdog after a loss, in milliseconds.
const TAKE_OVER_AFTER_GRACE_MS: u64 = 1_000;

/// How long a command may take to end by default, in milliseconds.
const GRACE_DEFAULT_MS: u64 = 5_000;

/// A grace that a hold does not leave time for; can be displayed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct GraceTooLong {
    wanted: Option<Duration>,
    fits: Duration,
}

/// Chooses the grace under a hold that gives this much `notice` before its deadline, if it has one.
///
/// With a grace that does not fit, a command would be ended although its hold is renewed as it should be.
/// Fails if the grace that is wanted does not fit, or none would.
pub(crate) fn settle_grace(wanted: Option<Duration>, notice: Option<Duration>) -> Result<Duration, GraceTooLong> {
    let default = Duration::from_millis(GRACE_DEFAULT_MS);
    let Some(notice) = notice else {
        return Ok(wanted.unwrap_or(default));
    };
    let fits = notice.saturating_sub(Duration::from_millis(KILL_BEFORE_END_MS));
    let grace = wanted.unwrap_or_else(|| default.min(fits / 2));
    if fits.is_zero() || grace > fits { Err(GraceTooLong { wanted, fits }) } else { Ok(grace) }
}

impl fmt::Display for GraceTooLong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, fits } = self;
        let cure = "ask for a longer session timeout";
        match wanted {
            Some(wanted) if !fits.is_zero() => {
                write!(formatter, "a grace of {wanted:?} does not fit into the session: {fits:?} would; or {cure}")
            }
            _ => write!(formatter, "the session's timeout leaves no time to end the command in; {cure}"),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum EndingProgress {
    Running,
    Asked {
        at: BootInstant,
    },
    /// It was killed; nothing is left to decide.
    Killed,
}

/// All that decides about the end of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// Until when the hold may be believed.
    pub(super) safe_until: SafeUntil,
    /// How long the command may take to end by itself.
    pub(super) grace: Duration,
    /// Whether it must end now: the lock is lost or to be given up, or the runner is gone.
    pub(super) must_end: bool,
    pub(super) progress: EndingProgress,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum EndingStep {
    Ask,
    Kill,
    /// Nothing until this moment, or until something else happens.
    Wait(Option<BootInstant>),
}

/// Decides what to do at `now`.
///
/// Once asked, a command is ended even if the hold is renewed: it has begun to stop its work.
pub(super) fn decide(situation: &Situation, now: BootInstant) -> EndingStep {
    let kill_by = match situation.safe_until {
        SafeUntil::At(end) => Some(end.saturating_sub(Duration::from_millis(KILL_BEFORE_END_MS))),
        SafeUntil::ProcessEnd => None,
    };
    let too_late = kill_by.is_some_and(|kill_by| now >= kill_by);
    match situation.progress {
        EndingProgress::Killed => EndingStep::Wait(None),
        EndingProgress::Running => {
            let ask_by = kill_by.map(|kill_by| kill_by.saturating_sub(situation.grace));
            if too_late {
                EndingStep::Kill
            } else if situation.must_end || ask_by.is_some_and(|ask_by| now >= ask_by) {
                EndingStep::Ask
            } else {
                EndingStep::Wait(ask_by)
            }
        }
        EndingProgress::Asked { at } => {
            let grace_end = at.saturating_add(situation.grace);
            let kill_at = kill_by.map_or(grace_end, |kill_by| kill_by.min(grace_end));
            if now >= kill_at { EndingStep::Kill } else { EndingStep::Wait(Some(kill_at)) }
        }
    }
}

/// Returns when the runner no longer waits for the watchdog to end the command, if ever.
pub(super) fn take_over_at(
    safe_until: SafeUntil,
    end_told_at: Option<BootInstant>,
    grace: Duration,
) -> Option<BootInstant> {
    let patience = grace.saturating_add(Duration::from_millis(TAKE_OVER_AFTER_GRACE_MS));
    let after_loss = end_told_at.map(|told_at| told_at.saturating_add(patience));
    let before_end = match safe_until {
        SafeUntil::At(end) => Some(end.saturating_sub(Duration::from_millis(TAKE_OVER_BEFORE_END_MS))),
        SafeUntil::ProcessEnd => None,
    };
    after_loss.into_iter().chain(before_end).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> BootInstant {
        BootInstant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_grace_fits_if_the_notice_has_room_for_it_and_for_the_kill() {
        let ms = Duration::from_millis;
        for (wanted_ms, notice_ms, settled_ms) in [
            (None, None, Some(5_000)),
            (Some(90_000), None, Some(90_000)),
            (None, Some(20_000), Some(5_000)),
            (None, Some(10_500), Some(5_000)),
            (None, Some(2_500), Some(1_000)),
            (Some(2_000), Some(2_500), Some(2_000)),
            (Some(2_001), Some(2_500), None),
            (Some(0), Some(501), Some(0)),
            (Some(0), Some(500), None),
            (None, Some(500), None),
            (None, Some(0), None),
        ] {
            let settled = settle_grace(wanted_ms.map(ms), notice_ms.map(ms)).ok();
            assert_eq!(settled, settled_ms.map(ms), "{wanted_ms:?} in {notice_ms:?}");
        }
    }

    #[test]
    fn a_grace_that_does_not_fit_is_refused_with_what_would() {
        let text =
            |wanted, notice_ms| settle_grace(wanted, Some(Duration::from_millis(notice_ms))).unwrap_err().to_string();
        let wanted = Some(Duration::from_secs(9));
        let long = "a grace of 9s does not fit into the session: 1.5s would; or ask for a longer session timeout";
        assert_eq!(text(wanted, 2_000), long);
        let none = "the session's timeout leaves no time to end the command in; ask for a longer session timeout";
        assert_eq!((text(wanted, 300), text(None, 300)), (none.to_owned(), none.to_owned()));
    }

    #[test]
    fn a_command_is_asked_so_early_that_its_grace_fits_and_killed_half_a_second_before_its_hold_ends() {
        let (running, asked_at) = (EndingProgress::Running, |ms| EndingProgress::Asked { at: at(ms) });
        let wait_until = |ms| EndingStep::Wait(Some(at(ms)));
        for (hold_ends, must_end, progress, now, step) in [
            // A hold without a deadline lets the command run.
            (None, false, running, 1 << 40, EndingStep::Wait(None)),
            (Some(10_000), false, running, 7_499, wait_until(7_500)),
            (Some(10_000), false, running, 7_500, EndingStep::Ask),
            (Some(10_000), false, asked_at(7_500), 9_499, wait_until(9_500)),
            (Some(10_000), false, asked_at(7_500), 9_500, EndingStep::Kill),
            // A late look kills at once.
            (Some(10_000), false, running, 9_500, EndingStep::Kill),
            (Some(100), false, running, 0, EndingStep::Kill),
            // A lost lock asks at once and kills after the grace.
            (None, true, running, 100, EndingStep::Ask),
            (None, true, asked_at(100), 2_099, wait_until(2_100)),
            (None, true, asked_at(100), 2_100, EndingStep::Kill),
            (None, true, EndingProgress::Killed, 9_999, EndingStep::Wait(None)),
            // A grace that does not fit is cut at the end of the hold.
            (Some(1_500), true, asked_at(200), 999, wait_until(1_000)),
            (Some(1_500), true, asked_at(200), 1_000, EndingStep::Kill),
            // A renewal moves the deadline but does not take back what was asked.
            (Some(20_000), false, running, 8_000, wait_until(17_500)),
            (Some(20_000), false, asked_at(8_000), 9_999, wait_until(10_000)),
            (Some(20_000), false, asked_at(8_000), 10_000, EndingStep::Kill),
        ] {
            let safe_until = hold_ends.map_or(SafeUntil::ProcessEnd, |ms| SafeUntil::At(at(ms)));
            let situation = Situation { safe_until, grace: Duration::from_millis(2_000), must_end, progress };
            assert_eq!(decide(&situation, at(now)), step, "{situation:?} at {now}");
        }
    }

    #[test]
    fn the_runner_takes_over_later_than_the_watchdog_acts_and_before_the_hold_ends() {
        let grace = Duration::from_millis(2_000);
        let deadline = SafeUntil::At(at(10_000));
        assert_eq!(take_over_at(SafeUntil::ProcessEnd, None, grace), None);
        assert_eq!(take_over_at(deadline, None, grace), Some(at(9_750)));
        assert_eq!(take_over_at(SafeUntil::ProcessEnd, Some(at(100)), grace), Some(at(3_100)));
        assert_eq!(take_over_at(deadline, Some(at(100)), grace), Some(at(3_100)));
        assert_eq!(take_over_at(deadline, Some(at(9_000)), grace), Some(at(9_750)));
    }
}
