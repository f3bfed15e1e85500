//! The news of sessions for observers: their beginning and end, and the findings of the brief examination at the first.

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{BoxFuture, Finding, Liveness, Result, Scrutiny, Session, SessionBond, Severity};
use tokio::runtime::Handle;

use crate::event::Event;
use crate::shared::Shared;

/// How long it may take: a service in order answers within a round trip or two, and what comes later than this is not
/// about the beginning of the work any more.
pub(super) const EXAMINED_WITHIN: Duration = Duration::from_secs(10);

/// What is found of a service, some time.
type Examining = BoxFuture<Result<Vec<Finding>>>;

impl Shared {
    /// Has the service examined beside what the session was opened for, unless that was done. If the session ends
    /// before there is an answer, the next one's opening asks again.
    pub(crate) fn examine_once(self: &Arc<Self>, bond: &SessionBond) {
        if self.is_examined.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut examining = self.backend.admin().examine(Scrutiny::Brief);
        // Where nothing has to be asked for, there is nothing to wait for, and so no task.
        if let Poll::Ready(found) = examining.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            self.conclude(found.ok());
        } else if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(finish(Arc::downgrade(self), examining, bond.clone(), self.clock.clone()));
        } else {
            self.conclude(None);
        }
    }

    /// Reports what matters most of what was found, if there was an answer.
    fn conclude(&self, found: Option<Vec<Finding>>) {
        match found.map(worth_telling) {
            Some(Some(finding)) => self.observers.emit(&Event::Weakened { service: self.backend.service(), finding }),
            Some(None) => {}
            None => self.is_examined.store(false, Ordering::Relaxed),
        }
    }
}

/// Waits for what is found, and does not keep the keeper alive meanwhile.
async fn finish(keeper: Weak<Shared>, examining: Examining, bond: SessionBond, clock: Arc<dyn Clock>) {
    let found = tokio::select! {
        biased;
        _ = bond.lost() => None,
        found = examining => found.ok(),
        () = clock.sleep_until(clock.now().saturating_add(EXAMINED_WITHIN)) => None,
    };
    if let Some(shared) = keeper.upgrade() {
        shared.conclude(found);
    }
}

/// Chooses what every user of a service should be told: what is worst, first of all if it takes from the service's
/// exclusion. Of several as bad as one another, the first; notes are left to those who ask.
fn worth_telling(findings: Vec<Finding>) -> Option<Finding> {
    let weight = |finding: &Finding| (finding.severity, finding.leaves.is_some());
    let told = findings.into_iter().filter(|finding| finding.severity >= Severity::Warning);
    told.reduce(|worst, next| if weight(&next) > weight(&worst) { next } else { worst })
}

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
