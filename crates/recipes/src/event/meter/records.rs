//! The records of a lock that is never taken, so that a program can measure what they cost it.

use std::sync::Arc;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Mode, QueueName};

use crate::event::meter::kept::{Meter, Meters};

/// Makes the records of a lock and its release, as a keeper's mutex makes them and through handles that are kept as a
/// keeper keeps them. No lock is taken.
///
/// ```
/// use std::sync::Arc;
/// use lockkeeper::clock::{BootInstant, SystemClock};
/// use lockkeeper::testing::Records;
///
/// let records = Records::new(Arc::new(SystemClock));
/// let [asked, granted, released] = [0, 1_000, 2_000].map(BootInstant::from_nanos);
/// records.make(asked, granted, released);
/// ```
pub struct Records {
    meter: Meter,
}

impl Records {
    /// Asks the recorder of the program for the handles, if one is installed.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let lock = QueueName::new("records").expect("it is a name");
        Self { meter: Meters::new("memory", clock, Vec::new()).of(&lock) }
    }

    /// Makes the records of one lock and its release, at these moments.
    pub fn make(&self, asked_at: BootInstant, granted_at: BootInstant, released_at: BootInstant) {
        self.meter.ask(Mode::Mutex, asked_at).granted(granted_at).end(released_at);
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Records").finish_non_exhaustive()
    }
}
