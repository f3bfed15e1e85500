//! A clock that stands still until it is moved by hand.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::{BootInstant, Clock};

/// Its clones are the same clock.
#[derive(Clone, Debug)]
pub(crate) struct HandClock {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    now: BootInstant,
    last_sleeper: u64,
    sleepers: Vec<(u64, Waker)>,
}

impl HandClock {
    pub(crate) fn new() -> Self {
        let state = State { now: BootInstant::from_nanos(1), last_sleeper: 0, sleepers: Vec::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Moves the clock and wakes all sleepers, so that they look again.
    pub(crate) fn advance(&self, by: Duration) {
        let mut state = self.state();
        state.now = state.now.saturating_add(by);
        for (_, waker) in state.sleepers.drain(..) {
            waker.wake();
        }
    }

    /// Tells whether any task waits for the clock to move.
    pub(crate) fn has_sleepers(&self) -> bool {
        !self.state().sleepers.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Clock for HandClock {
    fn now(&self) -> BootInstant {
        self.state().now
    }

    fn sleep_until(&self, deadline: BootInstant) -> BoxFuture<()> {
        let mut state = self.state();
        state.last_sleeper += 1;
        Box::pin(Sleep { clock: self.clone(), deadline, number: state.last_sleeper })
    }

    fn unix_time(&self) -> Duration {
        Duration::ZERO
    }
}

struct Sleep {
    clock: HandClock,
    deadline: BootInstant,
    number: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.state();
        state.sleepers.retain(|(number, _)| *number != self.number);
        if state.now >= self.deadline {
            return Poll::Ready(());
        }
        state.sleepers.push((self.number, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.clock.state().sleepers.retain(|(number, _)| *number != self.number);
    }
}
