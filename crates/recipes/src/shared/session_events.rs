//! Events of a session for observers: its opening, the start and the end of jeopardy, and its loss, each reported once.

use std::sync::{Arc, Weak};

use lockkeeper_core::{Liveness, Session, SessionBond};
use tokio::runtime::Handle;

use crate::event::Event;
use crate::shared::Shared;

impl Shared {
    /// Reports that a session was opened, and starts a task that reports its later events, and at the first one another
    /// that examines the service; without a runtime, there are no such tasks.
    pub(crate) fn tell_of(self: &Arc<Self>, session: &dyn Session) {
        self.meters.measure(session.bond());
        self.observers
            .emit(&Event::SessionOpened { service: self.backend.service(), timeout: session.bond().timeout() });
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(follow(Arc::downgrade(self), session.bond().clone()));
        }
        self.examine_once(session.bond());
    }
}

/// Reports the events of a session until it is lost or the keeper is dropped.
async fn follow(keeper: Weak<Shared>, bond: SessionBond) {
    let mut is_in_jeopardy = false;
    loop {
        let liveness = bond.liveness();
        let Some(shared) = keeper.upgrade() else {
            return;
        };
        let service = || shared.backend.service();
        match liveness {
            Liveness::Held { .. } if is_in_jeopardy => {
                is_in_jeopardy = false;
                shared.observers.emit(&Event::JeopardyOver { service: service() });
            }
            Liveness::Jeopardy { safe_until } if !is_in_jeopardy => {
                is_in_jeopardy = true;
                let safe_for = safe_until.left(shared.clock.now());
                shared.observers.emit_jeopardy(service(), safe_for, shared.backend.trouble());
            }
            Liveness::Lost(reason) => {
                shared.observers.emit(&Event::SessionLost { service: service(), reason });
                // The loss of each hold is told though its holder does not ask.
                shared.holds.look();
                return;
            }
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => {}
        }
        // This task must not keep the keeper alive while it waits.
        drop(shared);
        bond.changed(liveness).await;
    }
}
