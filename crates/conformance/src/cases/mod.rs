//! The cases, one file for each kind of behaviour; a case panics if the backend is wrong.

mod bad_input;
mod barriers;
mod bonds;
mod cancellation;
mod changes;
mod closing;
mod contention;
mod counting;
mod downgrade;
mod election;
mod events;
mod exclusion;
mod kinds;
mod leading;
mod loss;
mod multi_lock;
mod names;
mod observation;
mod operating;
mod order;
mod outage;
mod parts;
mod ranks;
mod reentrant;
mod regressions;
mod release;
mod requests;
mod run_under_lock;
mod rw_lock;
mod semaphore;
mod semaphore_bound;
mod semaphore_faults;
mod timeout;
mod timeout_kinds;
mod together;
mod tokens;
mod try_lock;
mod values;
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
        rw_lock::cases(),
        downgrade::cases(),
        semaphore::cases(),
        semaphore_bound::cases(),
        semaphore_faults::cases(),
        reentrant::cases(),
        multi_lock::cases(),
        election::cases(),
        leading::cases(),
        barriers::cases(),
        counting::cases(),
        operating::cases(),
        timeout_kinds::cases(),
        bad_input::cases(),
        regressions::cases(),
        events::cases(),
        waist::cases(),
        parts::cases(),
        ranks::cases(),
        bonds::cases(),
        together::cases(),
        changes::cases(),
        values::cases(),
        requests::cases(),
        contention::cases(),
    ]
    .concat()
}
