//! Faults and losses: what is refused, lost, out of reach or closed, and what is left then.

mod bad_input;
mod closing;
mod loss;
mod outage;
mod regressions;
mod semaphore;
mod unnoticed_loss;

use crate::case::Case;

/// The cases of this folder, in the order in which they run.
pub(super) fn cases() -> Vec<Case> {
    [
        bad_input::cases(),
        loss::cases(),
        unnoticed_loss::cases(),
        outage::cases(),
        semaphore::cases(),
        closing::cases(),
        regressions::cases(),
    ]
    .concat()
}
