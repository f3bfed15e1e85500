//! A mark that the place of a turn is left when the turn ends.

use std::sync::Weak;

use super::turn::Seat;

/// Has the place of a turn left when the turn ends, since something else depends on it: no later turn is to be had of
/// it. All turns of one grant have the same, and after the turn that notes it there is none.
#[derive(Clone, Debug)]
pub(crate) struct EndOfPlace {
    /// Weak, since holds may be kept for longer than their keeper.
    pub(super) seat: Weak<Seat>,
    pub(super) grant: u64,
}

impl EndOfPlace {
    pub(crate) fn note(&self) {
        if let Some(seat) = self.seat.upgrade() {
            seat.state().end_place(self.grant);
        }
    }
}
