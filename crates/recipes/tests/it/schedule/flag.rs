//! The notes of the tests: which contender was woken, and where it joined.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use lockkeeper_core::ContenderId;
use lockkeeper_recipes::{Event, Observer};
use parking_lot::Mutex;

/// A waker that only notes that it was woken.
#[derive(Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    /// Makes one that is set.
    pub(crate) const fn set() -> Self {
        Self(AtomicBool::new(true))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Lowers it, before the woken contender is polled.
    pub(crate) fn take(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The contender that joined last, of all keepers that it observes.
#[derive(Debug, Default)]
pub(crate) struct LastJoined(Mutex<Option<ContenderId>>);

impl LastJoined {
    pub(crate) fn replace(&self, joined: Option<ContenderId>) -> Option<ContenderId> {
        std::mem::replace(&mut *self.0.lock(), joined)
    }
}

impl Observer for LastJoined {
    fn on_event(&self, event: &Event) {
        if let Event::Joined { contender, .. } = event {
            self.replace(Some(contender.clone()));
        }
    }
}
