//! The stand-in for the meters where the feature `metrics` is off: nothing is measured, and it costs nothing.

use std::sync::Arc;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Error, Mode, NamePattern, QueueName, SessionBond, Wait};

#[derive(Debug)]
pub(crate) struct Meters;

#[derive(Clone)]
pub(crate) struct Meter;

pub(crate) struct MeteredCall;

pub(crate) struct MeteredHold;

impl Meters {
    pub(crate) fn new(_backend: &'static str, _clock: Arc<dyn Clock>, _labelled: Vec<NamePattern>) -> Self {
        Self
    }

    pub(crate) const fn of(&self, _lock: &QueueName) -> Meter {
        Meter
    }

    pub(crate) const fn measure(&self, _session: &SessionBond) {}
}

impl Meter {
    pub(crate) const fn ask(&self, _mode: Mode, _begun_at: BootInstant) -> MeteredCall {
        MeteredCall
    }
}

impl MeteredCall {
    pub(crate) const fn another(&self) -> Self {
        Self
    }

    pub(crate) const fn granted(self, _at: BootInstant) -> MeteredHold {
        MeteredHold
    }

    pub(crate) const fn none(self, _wait: Wait) {}

    pub(crate) const fn failed(self, _error: &Error) {}

    pub(crate) const fn goes_on(self) {}
}

impl MeteredHold {
    pub(crate) const fn end(&self, _now: BootInstant) {}
}
