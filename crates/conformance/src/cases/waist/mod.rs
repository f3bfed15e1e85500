//! The waist's own calls and views, without a recipe or as an onlooker has them.

mod bonds;
mod callers;
mod calls;
mod changes;
mod crowd;
mod following;
mod names;
mod observation;
mod parts;
mod ranks;
mod requests;
mod together;
mod values;

use lockkeeper_core::Modes;

use crate::case::{Case, using};

/// The cases of this folder, in the order in which they run.
pub(super) fn cases() -> Vec<Case> {
    [
        using(Modes::MUTEX, calls::cases()),
        using(Modes::MUTEX, crowd::cases()),
        using(Modes::MUTEX, observation::cases()),
        using(Modes::MUTEX, callers::cases()),
        using(Modes::MUTEX, names::cases()),
        using(Modes::MUTEX.with(Modes::SEMAPHORE), parts::cases()),
        using(Modes::READ_WRITE, ranks::cases()),
        using(Modes::MUTEX, bonds::cases()),
        using(Modes::SEMAPHORE, together::cases()),
        changes::cases(),
        values::cases(),
        following::cases(),
        using(Modes::MUTEX, requests::cases()),
    ]
    .concat()
}
