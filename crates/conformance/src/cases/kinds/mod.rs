//! The kinds of lock, as their users see them while nothing fails: what is most basic first.

mod barriers;
mod cancellation;
mod contention;
mod counting;
mod downgrade;
mod election;
mod events;
mod exclusion;
mod leading;
mod multi_lock;
mod one_lock;
mod operating;
mod order;
mod reentrant;
mod release;
mod run_under_lock;
mod rw_lock;
mod semaphore;
mod semaphore_bound;
mod timeout;
mod timeout_kinds;
mod tokens;
mod try_lock;
mod two_kinds;

use crate::case::Case;

/// The cases of this folder, in the order in which they run.
pub(super) fn cases() -> Vec<Case> {
    [
        exclusion::cases(),
        order::cases(),
        try_lock::cases(),
        timeout::cases(),
        cancellation::cases(),
        release::cases(),
        run_under_lock::cases(),
        tokens::cases(),
        two_kinds::cases(),
        rw_lock::cases(),
        downgrade::cases(),
        one_lock::cases(),
        semaphore::cases(),
        semaphore_bound::cases(),
        timeout_kinds::cases(),
        reentrant::cases(),
        multi_lock::cases(),
        election::cases(),
        leading::cases(),
        barriers::cases(),
        counting::cases(),
        operating::cases(),
        events::cases(),
        contention::cases(),
    ]
    .concat()
}
