//! A mark that the place of a turn is left when the turn ends.

use std::sync::Weak;

use super::state::Grant;

/// Has the place of a turn left when the turn ends, since something else depends on it: no later turn is to be had of
/// it. All turns of one grant share it, and after the turn that notes it there is none. It keeps no grant alive.
#[derive(Clone, Debug)]
pub(crate) struct EndOfPlace(Weak<Grant>);

impl EndOfPlace {
    pub(super) const fn new(grant: Weak<Grant>) -> Self {
        Self(grant)
    }

    pub(crate) fn note(&self) {
        // A grant that is gone has no later turn.
        if let Some(grant) = self.0.upgrade() {
            grant.end_place();
        }
    }
}
