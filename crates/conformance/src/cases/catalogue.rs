//! All cases, in the order in which they run: what is most basic first.

use super::{
    bad_input, barriers, bonds, cancellation, capabilities, changes, closing, contention, counting, downgrade,
    election, events, exclusion, kinds, leading, loss, multi_lock, names, observation, one_lock, operating, order,
    outage, parts, ranks, reentrant, regressions, release, requests, run_under_lock, rw_lock, semaphore,
    semaphore_bound, semaphore_faults, timeout, timeout_kinds, together, tokens, try_lock, unnoticed_loss, values,
    waist,
};
use crate::case::Case;

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    [
        capabilities::cases(),
        exclusion::cases(),
        order::cases(),
        try_lock::cases(),
        timeout::cases(),
        cancellation::cases(),
        release::cases(),
        run_under_lock::cases(),
        loss::cases(),
        unnoticed_loss::cases(),
        outage::cases(),
        closing::cases(),
        tokens::cases(),
        observation::cases(),
        names::cases(),
        kinds::cases(),
        rw_lock::cases(),
        downgrade::cases(),
        one_lock::cases(),
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
