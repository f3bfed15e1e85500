//! The right of one task to take a turn of a local queue, or to lead to a place for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockkeeper_core::Error;

use crate::contend::local_queue::line::{SlotNumber, Told};
use crate::contend::local_queue::turn::LocalQueue;

/// The key of a local queue: dropping it gives it to the next task.
#[derive(Debug)]
pub(super) struct Key {
    /// `None` once a turn has it: then it is not given on.
    local: Option<Arc<LocalQueue>>,
    serial: u64,
}

impl Key {
    pub(super) const fn new(local: Arc<LocalQueue>, serial: u64) -> Self {
        Self { local: Some(local), serial }
    }

    pub(super) fn local(&self) -> &Arc<LocalQueue> {
        self.local.as_ref().expect("no turn has it yet")
    }

    pub(super) const fn serial(&self) -> u64 {
        self.serial
    }

    /// Ends its care: a turn has it now.
    pub(super) fn used(mut self) -> (Arc<LocalQueue>, u64) {
        (self.local.take().expect("it is used once"), self.serial)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        if let Some(local) = self.local.take() {
            let now = local.clock.now();
            local.change(|state| state.give_up(self.serial, None, now));
        }
    }
}

/// A task's place in the line of a local queue: ready when it has the key, or will not have it. Dropping it leaves the
/// line.
#[derive(Debug)]
pub(super) struct InLine {
    local: Arc<LocalQueue>,
    /// `None` once it was told.
    slot: Option<SlotNumber>,
}

impl InLine {
    pub(super) const fn new(local: Arc<LocalQueue>, slot: SlotNumber) -> Self {
        Self { local, slot: Some(slot) }
    }
}

impl Future for InLine {
    type Output = Result<Key, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = self.slot.expect("a future that was ready is not polled again");
        let told = self.local.state().line.poll(slot, context.waker());
        let output = match told {
            Told::Nothing => return Poll::Pending,
            Told::Key(serial) => Ok(Key::new(self.local.clone(), serial)),
            Told::Failed(error) => Err(error),
        };
        self.slot = None;
        Poll::Ready(output)
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        let told = self.local.state().line.remove(slot);
        if let Told::Key(serial) = told {
            // It was given the key, and goes away before it hears of it.
            drop(Key::new(self.local.clone(), serial));
        }
    }
}
