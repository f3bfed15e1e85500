//! A mark that the place of a turn is left when the turn ends.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::state::Grant;

/// Has the place of a turn left when the turn ends, since something else depends on it: no later turn is to be had of
/// it. All turns of one grant share it, and after the turn that notes it there is none.
#[derive(Clone, Debug)]
pub(crate) struct EndOfPlace {
    /// Weak, since holds may be kept for longer than their session.
    of: Weak<Grant>,
}

impl EndOfPlace {
    pub(super) fn new(of: &Arc<Grant>) -> Self {
        Self { of: Arc::downgrade(of) }
    }

    pub(crate) fn note(&self) {
        if let Some(grant) = self.of.upgrade() {
            grant.ends_place.store(true, Ordering::Release);
        }
    }
}
