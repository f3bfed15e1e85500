//! Faults that a test plants, to show that another one catches them.

use std::cell::Cell;

/// A fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// A waiter at a gate leaves the next one the permit that it takes.
    GateNotCounted,
    /// All tasks of a process are taken for one flow of control.
    ProcessAsFlow,
    /// A second look counts that has seen nothing after the first one.
    OldViews,
}

thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Tells whether a fault is planted on this thread.
pub(crate) fn is(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Does work with a fault.
pub(crate) fn with<Output>(fault: Fault, work: impl FnOnce() -> Output) -> Output {
    PLANTED.set(Some(fault));
    let output = work();
    PLANTED.set(None);
    output
}
