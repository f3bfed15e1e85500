//! Faults and losses: what is refused, lost, out of reach or closed, and what is left then.

mod bad_input;
mod closing;
mod loss;
mod outage;
mod regressions;
mod unnoticed_loss;

use lockkeeper_core::Modes;

use crate::case::{Case, using};

/// The cases of this folder, in the order in which they run.
pub(super) fn cases() -> Vec<Case> {
    [
        bad_input::cases(),
        loss::cases(),
        unnoticed_loss::cases(),
        outage::cases(),
        using(Modes::MUTEX, closing::cases()),
        using(Modes::MUTEX, regressions::cases()),
    ]
    .concat()
}
