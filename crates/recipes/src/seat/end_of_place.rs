//! A mark that the place of a turn is left when the turn ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Has the place of a turn left when the turn ends, since something else depends on it: no later turn is to be had of
/// it. All turns of one grant share it, and after the turn that notes it there is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndOfPlace {
    is_noted: Arc<AtomicBool>,
}

impl EndOfPlace {
    pub(crate) fn note(&self) {
        self.is_noted.store(true, Ordering::Release);
    }

    pub(super) fn is_noted(&self) -> bool {
        self.is_noted.load(Ordering::Acquire)
    }
}
