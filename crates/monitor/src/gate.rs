//! The gate of a semaphore, at which contenders wait for permits: how long those have waited that hold some. Pure.

use lockkeeper::backend::{Flow, ProcessId};
use lockkeeper::clock::BootInstant;
use lockkeeper::{ContenderInfo, Mode};

/// Who waited at the gate of a semaphore, in order, and since when: one that is granted permits leaves the gate.
pub(crate) struct AtGate(Vec<(GateOrigin, BootInstant)>);

/// What a contender at the gate and its permits have in common: the session, the process and the flow of control.
type GateOrigin = (Option<String>, Option<ProcessId>, Option<Flow>);

impl AtGate {
    /// Takes in the contenders of a lock, each with when it was seen first.
    pub(crate) fn of<'a>(contenders: impl Iterator<Item = (&'a ContenderInfo, BootInstant)>) -> Self {
        let waiters = contenders.filter(|(info, _)| info.mode == Mode::Acquire);
        Self(waiters.map(|(info, since)| (origin(info), since)).collect())
    }

    /// Returns since when the first one waits that new permits may be of.
    pub(crate) fn asked(&self, permit: &ContenderInfo) -> Option<BootInstant> {
        // Most often there is none.
        if self.0.is_empty() || permit.mode != Mode::Permit {
            return None;
        }
        let whose = origin(permit);
        let is_known = whose.0.is_some() || whose.1.is_some();
        self.0.iter().find(|(waiter, _)| is_known && *waiter == whose).map(|(_, since)| *since)
    }
}

fn origin(info: &ContenderInfo) -> GateOrigin {
    (info.session.clone(), info.caller.process, info.caller.flow)
}
