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

use lockkeeper_core::Modes;

use crate::case::{Case, using};

/// The cases of this folder, in the order in which they run.
pub(super) fn cases() -> Vec<Case> {
    [
        carried::cases(),
        using(Modes::MUTEX, exclusion::cases()),
        using(Modes::MUTEX, order::cases()),
        using(Modes::MUTEX, try_lock::cases()),
        using(Modes::MUTEX, timeout::cases()),
        using(Modes::MUTEX, cancellation::cases()),
        using(Modes::MUTEX, release::cases()),
        using(Modes::MUTEX, run_under_lock::cases()),
        using(Modes::MUTEX, tokens::cases()),
        two_kinds::cases(),
        using(Modes::READ_WRITE, rw_lock::cases()),
        using(Modes::READ_WRITE, downgrade::cases()),
        using(Modes::MUTEX.with(Modes::READ_WRITE), one_lock::cases()),
        using(Modes::SEMAPHORE, semaphore::cases()),
        using(Modes::SEMAPHORE, semaphore_bound::cases()),
        timeout_kinds::cases(),
        reentrant::cases(),
        using(Modes::MUTEX, multi_lock::cases()),
        using(Modes::ELECTION, election::cases()),
        using(Modes::ELECTION, leading::cases()),
        barriers::cases(),
        counting::cases(),
        operating::cases(),
        using(Modes::MUTEX, events::cases()),
        contention::cases(),
    ]
    .concat()
}
