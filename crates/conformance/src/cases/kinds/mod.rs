//! The kinds of lock, as their users see them while nothing fails: what is most basic first.

mod barriers;
mod cancellation;
mod carried;
mod contention;
mod counting;
mod downgrade;
mod election;
mod events;
mod exclusion;
mod leading;
mod multi_lock;
mod operating;
mod order;
mod reentrant;
mod release;
mod run_under_lock;
mod rw_lock;
mod semaphore;
mod semaphore_bound;
mod timeout;
mod tokens;
mod try_lock;
mod two_kinds;

use lockkeeper_core::Modes;

use crate::case::{Case, using};

/// The cases of this folder, in the order in which they run.
pub(super) fn cases() -> Vec<Case> {
    [
        carried::cases(),
        exclusion::cases(),
        order::cases(),
        try_lock::cases(),
        timeout::cases(),
        cancellation::cases(),
        using(Modes::MUTEX, release::cases()),
        using(Modes::MUTEX, run_under_lock::cases()),
        using(Modes::MUTEX, tokens::cases()),
        two_kinds::cases(),
        rw_lock::cases(),
        downgrade::cases(),
        semaphore::cases(),
        using(Modes::SEMAPHORE, semaphore_bound::cases()),
        reentrant::cases(),
        using(Modes::MUTEX, multi_lock::cases()),
        election::cases(),
        using(Modes::ELECTION, leading::cases()),
        barriers::cases(),
        counting::cases(),
        operating::cases(),
        using(Modes::MUTEX, events::cases()),
        contention::cases(),
    ]
    .concat()
}
