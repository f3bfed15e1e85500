//! What a group needs that may not be installed.

use lockkeeper_faults::Availability;

use crate::Outcome;

/// Fails with what is missing, and its cure.
pub(super) fn present(what: Availability) -> Outcome<()> {
    match what {
        Availability::Present => Ok(()),
        Availability::Missing(why) => Err(why.into()),
    }
}
