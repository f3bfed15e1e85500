//! Faults and losses: what is refused, lost, out of reach or closed, and what is left then.

mod bad_input;
mod closing;
mod loss;
mod outage;
mod regressions;
mod semaphore;
mod unnoticed_loss;

use lockkeeper_core::Modes;

use crate::case::{Case, using};

/// The cases of this folder, in the order in which they run.
pub(super) fn cases() -> Vec<Case> {
    [
        bad_input::cases(),
        using(Modes::MUTEX, loss::cases()),
        unnoticed_loss::cases(),
        using(Modes::MUTEX, outage::cases()),
        using(Modes::SEMAPHORE, semaphore::cases()),
        using(Modes::MUTEX, closing::cases()),
        using(Modes::MUTEX, regressions::cases()),
    ]
    .concat()
}
