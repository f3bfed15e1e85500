//! The waist's own calls and views, without a recipe or as an onlooker has them.

mod bonds;
mod callers;
mod calls;
mod changes;
mod names;
mod observation;
mod parts;
mod ranks;
mod requests;
mod together;
mod values;

use crate::case::Case;

/// The cases of this folder, in the order in which they run.
pub(super) fn cases() -> Vec<Case> {
    [
        calls::cases(),
        observation::cases(),
        callers::cases(),
        names::cases(),
        parts::cases(),
        ranks::cases(),
        bonds::cases(),
        together::cases(),
        changes::cases(),
        values::cases(),
        requests::cases(),
    ]
    .concat()
}
