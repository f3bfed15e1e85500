//! One timer that is armed rarely and may ring early: requests move the next deadline with every reply, and a new timer
//! for each would cost more than the request.

use std::sync::Arc;

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::{BootInstant, Clock};

pub(crate) struct Alarm {
    clock: Arc<dyn Clock>,
    armed: Option<(BootInstant, BoxFuture<()>)>,
}

impl Alarm {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, armed: None }
    }

    /// Makes sure that it rings at `deadline` or before; it may still ring at an earlier one that was set before.
    pub(crate) fn set(&mut self, deadline: Option<BootInstant>) {
        let Some(deadline) = deadline else {
            return;
        };
        if self.armed.as_ref().is_none_or(|(at, _)| deadline < *at) {
            self.armed = Some((deadline, self.clock.sleep_until(deadline)));
        }
    }

    /// Waits until it rings; without end if it is not set. Dropping the future has no effect.
    pub(crate) async fn rings(&mut self) {
        match &mut self.armed {
            None => std::future::pending().await,
            Some((_, sleep)) => {
                sleep.await;
                self.armed = None;
            }
        }
    }
}
