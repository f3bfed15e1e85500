//! The right of one task to take a turn of a seat, or to lead to a place for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockkeeper_core::Error;

use super::line::{SlotNumber, Told};
use super::turn::Seat;

/// The key of a seat: dropping it gives it to the next task.
#[derive(Debug)]
pub(super) struct Key {
    /// `None` once a turn has it: then it is not given on.
    seat: Option<Arc<Seat>>,
    serial: u64,
}

impl Key {
    pub(super) const fn new(seat: Arc<Seat>, serial: u64) -> Self {
        Self { seat: Some(seat), serial }
    }

    pub(super) fn seat(&self) -> &Arc<Seat> {
        self.seat.as_ref().expect("no turn has it yet")
    }

    pub(super) const fn serial(&self) -> u64 {
        self.serial
    }

    /// Ends its care: a turn has it now.
    pub(super) fn used(mut self) -> (Arc<Seat>, u64) {
        (self.seat.take().expect("it is used once"), self.serial)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            let now = seat.clock.now();
            seat.change(|state| state.give_up(self.serial, None, now));
        }
    }
}

/// A task's place in the line of a seat: ready when it has the key, or will not have it. Dropping it leaves the line.
#[derive(Debug)]
pub(super) struct InLine {
    seat: Arc<Seat>,
    /// `None` once it was told.
    slot: Option<SlotNumber>,
}

impl InLine {
    pub(super) const fn new(seat: Arc<Seat>, slot: SlotNumber) -> Self {
        Self { seat, slot: Some(slot) }
    }
}

impl Future for InLine {
    type Output = Result<Key, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = self.slot.expect("a future that was ready is not polled again");
        let told = self.seat.state().line.poll(slot, context.waker());
        let output = match told {
            Told::Nothing => return Poll::Pending,
            Told::Key(serial) => Ok(Key::new(self.seat.clone(), serial)),
            Told::Failed(error) => Err(error),
        };
        self.slot = None;
        Poll::Ready(output)
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        let told = self.seat.state().line.remove(slot);
        if let Told::Key(serial) = told {
            // It was given the key, and goes away before it hears of it.
            drop(Key::new(self.seat.clone(), serial));
        }
    }
}
