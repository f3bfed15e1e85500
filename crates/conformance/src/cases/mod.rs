//! The cases, one file for each kind of behaviour; a case panics if the backend is wrong.

mod cancellation;
mod closing;
mod contention;
mod events;
mod exclusion;
mod kinds;
mod loss;
mod names;
mod observation;
mod order;
mod outage;
mod release;
mod run_under_lock;
mod timeout;
mod tokens;
mod try_lock;
mod waist;

use crate::case::Case;

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    [
        exclusion::cases(),
        order::cases(),
        try_lock::cases(),
        timeout::cases(),
        cancellation::cases(),
        release::cases(),
        run_under_lock::cases(),
        loss::cases(),
        outage::cases(),
        closing::cases(),
        tokens::cases(),
        observation::cases(),
        names::cases(),
        kinds::cases(),
        events::cases(),
        waist::cases(),
        contention::cases(),
    ]
    .concat()
}
