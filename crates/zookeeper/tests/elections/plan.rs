//! What is played: which faults, how many rounds of each, and the times that all parts use.

use std::time::Duration;

use lockkeeper_faults::long;

/// The ensemble's tick: short, so that a session expires within seconds.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// Every session's timeout.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(3);

/// How soon after the leader's last sign of life another must lead: the promised session timeout, 1.5 ticks and a
/// second.
pub(crate) const HAND_OVER_MAX: Duration =
    SESSION_TIMEOUT.saturating_add(TICK).saturating_add(TICK.checked_div(2).expect("not by 0")).saturating_add(SECOND);

const SECOND: Duration = Duration::from_secs(1);

/// How many elections suffer the same fault at the same time.
pub(crate) const ELECTIONS_OF_EACH: u32 = 3;

/// How many campaigners an election has: as many as the ensemble has servers, one for each.
pub(crate) const CAMPAIGNERS: usize = 3;

/// How many rounds of each fault the long run has at least.
const ROUNDS_LONG: u32 = 50;

/// What happens to a leader.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Fault {
    /// Its process is killed.
    Killed,
    /// Its process stands still, and goes on when another leads.
    Stopped,
    /// Its packets vanish, until another leads.
    CutOff,
}

impl Fault {
    pub(crate) const ALL: [Self; 3] = [Self::Killed, Self::Stopped, Self::CutOff];
}

/// How many rounds each election plays.
pub(crate) fn rounds_of_each_election() -> u32 {
    long::rounds(ROUNDS_LONG).div_ceil(ELECTIONS_OF_EACH)
}
